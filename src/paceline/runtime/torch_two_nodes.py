"""Linear layers of a live job whose forward pass makes two nodes of autograd's graph: one gives
the gradient of its input, the other that of weight and bias, behind all others.

The autograd engine takes, of the nodes that are ready on a device, the one with the highest
sequence number, which is the one made last. The second node bears a number below all others.
"""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

USES = 64
"""Numbers for each layer: of its uses in one pass the last has its turn first, as ever."""


def own_linear_layers(model: nn.Module) -> list[nn.Linear]:
    """As the model defines them; a weight that several layers share is none's alone."""
    owners: dict[int, int] = {}
    for module in model.modules():
        for tensor in module.parameters(recurse=False):
            owners[id(tensor)] = owners.get(id(tensor), 0) + 1
    linear = (module for module in model.modules() if type(module) is nn.Linear)
    return [layer for layer in linear if trains(layer) and owners[id(layer.weight)] == 1]


def trains(layer: nn.Linear) -> bool:
    return type(layer.weight) is nn.Parameter and layer.weight.requires_grad


def leave_room(layers: Sequence[nn.Linear]) -> None:
    """Nodes to come have numbers above those of these layers: each that is made takes one."""
    probe = torch.zeros((), requires_grad=True)
    while probe.view(()).grad_fn._sequence_nr() < len(layers) * USES:
        pass


def stand_in(inputs: Tensor, outputs: int) -> Tensor:
    """What the second node gives in the forward pass: of the result's shape, without its room."""
    return inputs.new_empty(()).expand(*inputs.shape[:-1], outputs)


def input_gradient(rows: Tensor, weight: Tensor, shape: Sequence[int]) -> Tensor:
    """By the gradient of the result, as rows."""
    return (rows @ weight).view(shape)


def as_rows(tensor: Tensor) -> Tensor:
    return tensor.reshape(-1, tensor.shape[-1])
