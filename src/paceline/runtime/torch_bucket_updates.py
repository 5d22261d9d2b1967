"""What strategies share that update one bucket's parameters apart from the optimizer's step."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from paceline.runtime.exchange import ExchangeError
from paceline.runtime.torch_optimizers import only

Settings = list[dict[str, Any]]
"""Of an optimizer's groups, but for their parameters."""


def settings_of(optimizer: Any) -> Settings:
    return [
        {name: value for name, value in group.items() if name != "params"}
        for group in optimizer.param_groups
    ]


def gradients_in(bucket: Any) -> list[Any]:
    """Where the gradients of DDP's bucket lie, each in the order in memory of its parameter: DDP's
    own `gradients` are wrong where channels lie last."""
    buffer, parameters = bucket.buffer(), bucket.parameters()
    if buffer.layout is not torch.strided:  # of one embedding with sparse gradients
        return [buffer]
    parts = buffer.split([parameter.numel() for parameter in parameters])
    return [_like(parameter, part) for parameter, part in zip(parameters, parts)]


def _like(parameter: Any, part: Any) -> Any:
    """A part of a bucket as the parameter lies; those with gaps lie as rows of rows."""
    lies = torch.empty_like(parameter, device="meta").stride()
    if parameter.stride() != lies:
        return part.view(parameter.shape)
    return part.as_strided(parameter.shape, lies)


def update(
    optimizer: Any,
    parameters: Sequence[Any],
    gradients: Sequence[Any],
    settings: Settings | None = None,
) -> None:
    """The optimizer's step on these parameters alone, with these gradients. Those who listen to
    steps are not told; what lay in `.grad` lies there again."""
    before = [parameter.grad for parameter in parameters]
    try:
        for parameter, gradient in zip(parameters, gradients):
            parameter.grad = gradient
        with only(optimizer, set(map(id, parameters)), settings):
            _plain_step(optimizer)
    finally:
        for parameter, gradient in zip(parameters, before):
            parameter.grad = gradient


def _plain_step(optimizer: Any) -> None:
    step = type(optimizer).step
    getattr(step, "__wrapped__", step)(optimizer)


def behind_backward(call: Callable[[], None]) -> None:
    """Once the backward pass that is under way has ended, and DDP with it, whose own callback is
    queued when its last bucket was handed over."""
    engine: Any = torch.autograd.Variable._execution_engine
    engine.queue_callback(lambda: engine.queue_callback(call))


@dataclass
class Untouched:
    """Gradients as the backward pass left them."""

    strategy: str
    names: Mapping[int, str]  # of parameters, by `id`
    _left: dict[int, tuple[Any, Any, int]] = field(default_factory=dict)
    # by `id` of a parameter: itself, its gradient and that one's version

    def note(self, parameters: Iterable[Any]) -> None:
        found = {id(p): p for p in parameters if p.grad is not None}
        self._left = {at: (p, p.grad, p.grad._version) for at, p in found.items()}

    def require(self) -> None:
        """An error where the script changed any of them since."""
        for parameter, gradient, version in self._left.values():
            if parameter.grad is not gradient or gradient._version != version:
                name = self.names.get(id(parameter), "a parameter")
                raise ExchangeError(
                    f"the gradient of {name} was changed between backward and the optimizer's "
                    f"step, as clipping by the norm of all gradients does. {self.strategy} updates "
                    "each parameter as its own gradient arrives; leave it out of the plan"
                )
        self._left = {}
