"""What may be asked of optimizers that read and write one parameter at a time."""

import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import torch

from paceline.runtime.exchange import ExchangeError

PER_PARAMETER = "SGD Adam AdamW Adamax NAdam RAdam RMSprop Adagrad Adadelta".split()
"""Of torch's own; looked up when asked, for this file is imported while torch still is."""


def require_per_parameter(optimizer: Any) -> None:
    require_known(optimizer)
    if optimizer._optimizer_step_pre_hooks or optimizer._optimizer_step_post_hooks:
        raise ExchangeError(
            "the optimizer has hooks of its own on its steps, which would see weights before they "
            "are all updated; take them out of the script, or the change of its update out of the "
            "plan"
        )


def require_known(optimizer: Any) -> None:
    """One that updates each number of a parameter by itself, and calls a closure once."""
    kind = type(optimizer)
    if kind not in [getattr(torch.optim, name) for name in PER_PARAMETER]:
        raise ExchangeError(
            f"{kind.__name__} may read all gradients at once, so parameters cannot be updated one "
            f"by one; known not to are {', '.join(PER_PARAMETER)}"
        )


def updates_a_part(optimizer: Any) -> bool:
    """ZeRO, whose ranks share out the tensors. Found by the class of the job's own object; what it
    has not imported it does not use."""
    zero = getattr(sys.modules.get("torch.distributed.optim"), "ZeroRedundancyOptimizer", None)
    return zero is not None and isinstance(optimizer, zero)


def evaluated(closure: Callable[[], Any] | None) -> Any:
    """What the script's closure returns, which an optimizer that updates one parameter at a time
    calls once, before anything else."""
    if closure is None:
        return None
    with torch.enable_grad():
        return closure()


@contextmanager
def sole(optimizer: Any, modules: Iterable[Any]) -> Iterator[None]:
    """No other optimizer trains what this one leaves of these modules: an error before it steps."""
    from torch.optim.optimizer import register_optimizer_step_pre_hook as before_steps

    trained = {id(p) for module in modules for p in module.parameters() if p.requires_grad}

    def refuse(other: Any, *_: Any) -> None:
        if other is optimizer or not (_parameters(other) & trained) - _parameters(optimizer):
            return
        raise ExchangeError(
            f"two optimizers train this model, and the plan changes when weights are updated under "
            f"one of them alone ({type(optimizer).__name__}); the step of the other "
            f"({type(other).__name__}) would take gradients that are not those of all workers. "
            "Train with one optimizer, or leave that change out of the plan"
        )

    hook = before_steps(refuse)
    try:
        yield
    finally:
        hook.remove()


def _parameters(optimizer: Any) -> set[int]:
    return {id(p) for group in optimizer.param_groups for p in group["params"]}


@contextmanager
def only(
    optimizer: Any, wanted: set[int], settings: list[dict[str, Any]] | None = None
) -> Iterator[None]:
    """The optimizer with these parameters (by `id`) alone, and with these settings."""
    before = [dict(group) for group in optimizer.param_groups]
    try:
        for group, given in zip(optimizer.param_groups, settings or [{} for _ in before]):
            group.update(given)
            group["params"] = [p for p in group["params"] if id(p) in wanted]
        yield
    finally:
        for group, whole in zip(optimizer.param_groups, before):
            group.clear()
            group.update(whole)
