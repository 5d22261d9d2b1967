"""Gradients add up on each rank over several steps of the script; the last of them exchanges them
and updates weights."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch

from paceline.runtime.exchange import ExchangeError, Passes
from paceline.runtime.run import Run
from paceline.runtime.torch_attributes import instead
from paceline.runtime.torch_optimizers import evaluated


@contextmanager
def accumulating(run: Run, passes: Passes) -> Iterator[None]:
    """Left between two exchanges, gradients that were not exchanged stay the rank's own."""
    if isinstance(run.optimizer, torch.optim.LBFGS):
        raise ExchangeError(
            "LBFGS takes new gradients several times in a step, so steps of the script cannot be "
            "put together; leave accumulate out of the plan"
        )
    count = _Count(run, passes)
    with ExitStack() as stack:
        for replica in run.replicas:
            before = replica.require_backward_grad_sync
            stack.callback(setattr, replica, "require_backward_grad_sync", before)
        stack.enter_context(instead(run.optimizer, "step", count.stepping))
        for owner in {
            id(each): each for each in (run.optimizer, run.model, *run.replicas)
        }.values():
            stack.enter_context(instead(owner, "zero_grad", count.clearing))
        count.tell()
        yield


class _Count:
    """Which pass of a step this is."""

    def __init__(self, run: Run, passes: Passes) -> None:
        self._replicas, self._passes, self._done = run.replicas, passes.count, 0
        self._optimizer, self._rate = run.optimizer, passes.rate

    def tell(self) -> None:
        """Only the last pass of a step lets DDP exchange gradients."""
        for replica in self._replicas:
            replica.require_backward_grad_sync = self._done == self._passes - 1

    def stepping(self, step: Callable[..., Any]) -> Callable[..., Any]:
        def count(closure: Callable[[], Any] | None = None) -> Any:
            loss = evaluated(closure)  # a pass of this step, as one before it would be
            self._done = (self._done + 1) % self._passes
            self.tell()
            if not self._done:
                with _rate_times(self._rate, self._optimizer):
                    step()
            self._optimizer._opt_called = True  # what a learning-rate scheduler looks for
            return loss

        return count

    def clearing(self, zero_grad: Callable[..., None]) -> Callable[..., None]:
        """Gradients are cleared before a step's first pass alone."""

        def clear(set_to_none: bool = True) -> None:
            if not self._done:
                zero_grad(set_to_none)

        return clear


@contextmanager
def _rate_times(factor: float, optimizer: Any) -> Iterator[None]:
    """A larger learning rate for one step; schedules see their own."""
    groups = optimizer.param_groups
    rates = [group["lr"] for group in groups]
    try:
        for group, rate in zip(groups, rates, strict=True):
            group["lr"] = factor * rate
        yield
    finally:
        for group, rate in zip(groups, rates, strict=True):
            group["lr"] = rate
