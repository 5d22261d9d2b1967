"""Torch's fused implementation in a live optimizer; its state stays, and so do checkpoints."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

from paceline.errors import PacelineError

SETTINGS = ("fused", "foreach")


class FusedError(PacelineError):
    """An optimizer that has no fused implementation."""


@contextmanager
def fused(optimizer: Any) -> Iterator[None]:
    _require(optimizer)
    before = [{name: group[name] for name in SETTINGS} for group in optimizer.param_groups]

    def as_before(_: Any, state: dict[str, Any]) -> None:
        """A checkpoint says what the script had asked for."""
        for group, settings in zip(state["param_groups"], before):
            group.update(settings)

    hook = optimizer.register_state_dict_post_hook(as_before)
    counted = {id(p): state["step"].device for p, state in _counting(optimizer)}
    try:
        for parameter, state in _counting(optimizer):
            state["step"] = state["step"].to(parameter.device)
        _begin_velocities(optimizer)
        for group in optimizer.param_groups:
            group.update(fused=True, foreach=False)
        yield
    finally:
        hook.remove()
        for group, settings in zip(optimizer.param_groups, before):
            group.update(settings)
        for parameter, state in _counting(optimizer):
            state["step"] = state["step"].to(counted.get(id(parameter), "cpu"))


def _counting(optimizer: Any) -> list[tuple[Any, dict[str, Any]]]:
    """Parameters whose state counts steps in a tensor, which the fused kernel wants beside them."""
    kept = optimizer.state.items()
    return [(p, state) for p, state in kept if isinstance(state.get("step"), torch.Tensor)]


def _begin_velocities(optimizer: Any) -> None:
    """The fused SGD takes velocities of all parameters of a group or of none. One that has none is
    zero, which is what a first step makes of it; dampening would take a part of that step."""
    for group in optimizer.param_groups:
        states = [optimizer.state.get(p, {}) for p in _of(group)]
        known = [state.get("momentum_buffer") is not None for state in states]
        if not group.get("momentum") or all(known) or not any(known):
            continue
        if group["dampening"]:
            raise FusedError(
                "some parameters have no velocity yet, and the fused SGD begins one without "
                "dampening for all or none; leave fused_optimizer out of the plan"
            )
        for parameter, there in zip(_of(group), known):
            if not there:
                optimizer.state[parameter]["momentum_buffer"] = torch.zeros_like(parameter)


def _of(group: dict[str, Any]) -> list[Any]:
    return [parameter for parameter in group["params"] if parameter.requires_grad]


def _require(optimizer: Any) -> None:
    kind = type(optimizer).__name__
    if not all(set(SETTINGS) <= set(group) for group in optimizer.param_groups):
        raise FusedError(f"torch has no fused {kind}; leave fused_optimizer out of the plan")
    for group in optimizer.param_groups:
        if group.get("differentiable"):
            raise FusedError(f"a fused {kind} cannot be differentiable; leave fused_optimizer out")
        if not all(p.is_floating_point() for p in group["params"]):
            raise FusedError(f"a fused {kind} takes real numbers only; leave fused_optimizer out")
        if any(p.grad is not None and p.grad.is_sparse for p in group["params"]):
            raise FusedError(
                f"a fused {kind} takes no sparse gradients, and an embedding with sparse=True has "
                "some; leave fused_optimizer out"
            )
