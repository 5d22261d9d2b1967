"""A live convolutional net with its channels innermost, and back: weights, inputs, gradients,
optimizer state, and DDP's views of gradients, whose strides must be those of the weights."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch

from paceline.errors import PacelineError
from paceline.runtime.run import Run
from paceline.runtime.torch_forward import forward_as
from paceline.runtime.torch_reducer import rebuilt

CONVOLUTIONS = (torch.nn.Conv2d, torch.nn.ConvTranspose2d)


class ChannelsError(PacelineError):
    """A model whose channels cannot be put last."""


@contextmanager
def channels_innermost(run: Run) -> Iterator[None]:
    if not any(isinstance(module, CONVOLUTIONS) for module in run.model.modules()):
        raise ChannelsError(
            "the model has no Conv2d, and only images have channels to put last; leave "
            "channels_last out of the plan"
        )
    before = {id(t): t.stride() for t in _images(run)}
    try:
        _reorder(run, lambda _, t: t.to(memory_format=torch.channels_last))
        with forward_as(run.model, _on_images):
            yield
    finally:
        _reorder(run, lambda key, t: _with_strides(t, before.get(key)))
        for replica in run.replicas:
            rebuilt(replica)


def _images(run: Run) -> list[torch.Tensor]:
    """Weights of convolutions and what the optimizer keeps for them."""
    tensors = [*run.model.parameters(), *run.model.buffers()]
    kept = (value for state in run.optimizer.state.values() for value in state.values())
    tensors += [value for value in kept if isinstance(value, torch.Tensor)]
    return [tensor for tensor in tensors if tensor.dim() == 4]


def _reorder(run: Run, change: Callable[[int, torch.Tensor], torch.Tensor]) -> None:
    """In place, so that the model, the optimizer and whoever holds a tensor see the change, which
    is told the tensor's id: its values are another object."""
    with torch.no_grad():
        for tensor in _images(run):
            if tensor.grad is not None:
                tensor.grad = None if run.replicas else change(id(tensor), tensor.grad)
            tensor.data = change(id(tensor), tensor.data)


def _with_strides(tensor: torch.Tensor, strides: tuple[int, ...] | None) -> torch.Tensor:
    if strides is None:  # made under the strategy: the optimizer's state of a first step
        return tensor.clone(memory_format=torch.contiguous_format)
    made = torch.empty_strided(tensor.shape, strides, dtype=tensor.dtype, device=tensor.device)
    return made.copy_(tensor)


def _on_images(forward: Callable[..., Any]) -> Callable[..., Any]:
    def last(value: Any) -> Any:
        if isinstance(value, torch.Tensor) and value.dim() == 4:
            return value.contiguous(memory_format=torch.channels_last)
        return value

    def run(*given: Any, **named: Any) -> Any:
        return forward(*map(last, given), **{name: last(v) for name, v in named.items()})

    return run
