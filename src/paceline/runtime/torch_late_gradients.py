"""Linear layers of a live job whose weight gradients wait until all input gradients are made.

The autograd engine takes, of the nodes that are ready on a device, the one with the highest
sequence number, which is the one made last. A layer's forward pass here makes two nodes: one gives
the gradient of its input as ever; the other, to which it hands the gradient of the result on, that
of weight and bias, and bears a number below all others.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional

from paceline.errors import PacelineError
from paceline.runtime.late_order import late_order
from paceline.runtime.run import Run
from paceline.runtime.torch_forward import Forward, forward_as

_USES = 64
"""Numbers for each layer: of its uses in one pass the last has its turn first, as ever."""


class LateError(PacelineError):
    """A job whose weight gradients cannot be made later."""


@contextmanager
def gradients_late(run: Run, first: int, order: str) -> Iterator[None]:
    """Until the context is left."""
    _require_replicas(run)
    layers = _layers(run.model)
    sizes = [layer.weight.numel() * layer.weight.element_size() for layer in layers]
    held = [layers[layer] for layer in late_order(sizes, first, order)]
    if not held:
        raise LateError(
            "no plain linear layer of this model trains a weight of its own, so no gradient can be "
            "made later; leave late_gradients out of the plan"
        )
    _leave_room(len(held) * _USES)
    with ExitStack() as stack:
        for turn, layer in enumerate(reversed(held)):
            stack.enter_context(forward_as(layer, _Apart(layer, turn * _USES)))
        yield


def _require_replicas(run: Run) -> None:
    if not run.replicas:
        raise LateError(
            "this job has no DistributedDataParallel module: FSDP2 reduces a layer's gradients "
            "once its input gradient is made, and a job of one worker exchanges none; leave "
            "late_gradients out of the plan"
        )


def _layers(model: nn.Module) -> list[nn.Linear]:
    """As the model defines them; a weight that several layers share is none's alone."""
    owners: dict[int, int] = {}
    for module in model.modules():
        for tensor in module.parameters(recurse=False):
            owners[id(tensor)] = owners.get(id(tensor), 0) + 1
    linear = (module for module in model.modules() if type(module) is nn.Linear)
    return [layer for layer in linear if _trains(layer) and owners[id(layer.weight)] == 1]


def _trains(layer: nn.Linear) -> bool:
    return type(layer.weight) is nn.Parameter and layer.weight.requires_grad


def _leave_room(count: int) -> None:
    """Nodes to come have numbers above these: each that is made takes one."""
    probe = torch.zeros((), requires_grad=True)
    while probe.view(()).grad_fn._sequence_nr() < count:
        pass


class _Apart:
    """A layer's forward pass with two nodes."""

    def __init__(self, layer: nn.Linear, number: int) -> None:
        self._layer, self._number, self._uses = layer, number, 0

    def __call__(self, forward: Forward) -> Callable[[Tensor], Tensor]:
        def run(inputs: Tensor) -> Tensor:
            if not torch.is_grad_enabled() or not _trains(self._layer) or inputs.dim() < 2:
                result: Tensor = forward(inputs)
                return result
            kind = inputs.device.type
            given = (inputs, self._layer.weight, self._layer.bias)
            if not torch.is_autocast_enabled(kind):
                return self._product(*given)
            dtype = torch.get_autocast_dtype(kind)
            with torch.autocast(kind, enabled=False):
                return self._product(*(g if g is None else g.to(dtype) for g in given))

        return run

    def _product(self, inputs: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        later: Tensor = _Weight.apply(inputs.detach(), weight, bias)
        later.grad_fn._set_sequence_nr(self._number + self._uses % _USES)
        self._uses += 1
        fixed = None if bias is None else bias.detach()
        result: Tensor = _Input.apply(inputs, weight.detach(), fixed, later)
        return result


class _Weight(torch.autograd.Function):  # type: ignore[misc]
    """The gradient of weight and bias from that of the result, which comes as that of a stand-in
    of its shape."""

    @staticmethod
    def forward(context: Any, inputs: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        context.save_for_backward(inputs)
        return inputs.new_empty(()).expand(*inputs.shape[:-1], len(weight))

    @staticmethod
    @once_differentiable  # type: ignore[untyped-decorator]
    def backward(context: Any, gradient: Tensor) -> Any:
        (inputs,) = context.saved_tensors
        rows = gradient.reshape(-1, gradient.shape[-1])
        bias = _bias(inputs, gradient, rows) if context.needs_input_grad[2] else None
        return None, rows.t() @ inputs.reshape(-1, inputs.shape[-1]), bias


def _bias(inputs: Tensor, gradient: Tensor, rows: Tensor) -> Tensor:
    """Summed as torch does, whose product adds the bias where it takes the inputs as rows; else
    another operator adds it."""
    if inputs.is_contiguous() and inputs.dim() == 3:
        return rows.sum(0)
    return gradient.sum(tuple(range(gradient.dim() - 1)))


class _Input(torch.autograd.Function):  # type: ignore[misc]
    """The product; the gradient of its input, and that of the result handed on."""

    @staticmethod
    def forward(
        context: Any, inputs: Tensor, weight: Tensor, bias: Tensor | None, later: Tensor
    ) -> Tensor:
        context.save_for_backward(weight)
        context.shape = inputs.shape
        return functional.linear(inputs, weight, bias)

    @staticmethod
    @once_differentiable  # type: ignore[untyped-decorator]
    def backward(context: Any, gradient: Tensor) -> Any:
        (weight,) = context.saved_tensors
        if not context.needs_input_grad[0]:
            return None, None, None, gradient
        rows = gradient.reshape(-1, gradient.shape[-1])
        return (rows @ weight).view(context.shape), None, None, gradient
