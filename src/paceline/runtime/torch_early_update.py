"""Each parameter is updated when its bucket has arrived, beside the backward pass that goes on.

The update runs where the exchange ended: on a thread of gloo, on a device on the stream of the
future that brings the bucket. DDP waits for it as for the bucket. The optimizer's `step` then finds
nothing left to do, and tells those who listen.

The first step is made as ever, to see whether the script changes gradients or settings between
backward and `step`: what cannot be updated early is refused before anything differs. The same is
asked of every later step.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Lock
from typing import Any

import torch

from paceline.runtime.exchange import ExchangeError
from paceline.runtime.run import Run
from paceline.runtime.torch_attributes import instead
from paceline.runtime.torch_bucket_updates import (
    Settings,
    Untouched,
    behind_backward,
    gradients_in,
    settings_of,
    update,
)
from paceline.runtime.torch_optimizers import evaluated, only, require_per_parameter

Hook = Callable[[None, Any], Any]


class EarlyUpdates:
    """Of one plan: what was handed over since the optimizer's last step."""

    def __init__(self, run: Run) -> None:
        _require(run)
        self._optimizer, self._names = run.optimizer, run.names
        self._gradients = Untouched("early_update", run.names)
        self._handed: dict[int, Any] = {}  # parameters by `id`, since the last step
        self._settings: Settings = []  # at the first hand-over since then
        self._seen = False  # whether a step was made as ever
        self._one_at_a_time = Lock()  # several of gloo's threads may bring buckets

    def behind(self, hook: Hook) -> Hook:
        """A hook whose bucket is there once its parameters are updated."""

        def begin(state: None, bucket: Any) -> Any:
            parameters, gradients = bucket.parameters(), gradients_in(bucket)
            self._hand_over(parameters)
            if bucket.is_last():
                behind_backward(lambda: self._gradients.note(self._handed.values()))
            arrived = hook(state, bucket)
            if not self._seen:
                return arrived

            def updated(done: Any) -> Any:
                whole = done.value()  # raises where the exchange failed
                with self._one_at_a_time:
                    update(self._optimizer, parameters, gradients)
                return whole

            return arrived.then(updated)

        return begin

    @contextmanager
    def installed(self) -> Iterator[None]:
        """The optimizer's step finds the parameters updated."""
        with instead(self._optimizer, "step", self._stepping):
            try:
                yield
            finally:
                self._leave()

    def _stepping(self, step: Callable[..., Any]) -> Callable[..., Any]:
        def stepped(closure: Callable[[], Any] | None = None) -> Any:
            loss = evaluated(closure)
            self._gradients.require()
            self._require_settings()
            self._require_used()
            updated = self._handed if self._seen else {}
            self._seen, self._handed = self._seen or bool(self._handed), {}
            every = {id(p) for group in self._optimizer.param_groups for p in group["params"]}
            with only(self._optimizer, every - updated.keys()):
                step()
            return loss

        return stepped

    def _hand_over(self, parameters: list[Any]) -> None:
        for parameter in parameters:
            if id(parameter) in self._handed:
                raise ExchangeError(
                    f"{self._names.get(id(parameter), 'a parameter')} cannot be updated early: "
                    "there were two backward passes before the optimizer's step; leave "
                    "early_update out of the plan"
                )
        if not self._handed:
            self._settings = _copied(settings_of(self._optimizer))
        self._handed.update({id(parameter): parameter for parameter in parameters})

    def _require_settings(self) -> None:
        if not self._handed:
            return
        for before, now in zip(self._settings, settings_of(self._optimizer)):
            changed = [name for name in before if not _same(before[name], now.get(name))]
            if changed:
                raise ExchangeError(
                    f"the optimizer's {changed[0]} was changed between backward and its step, and "
                    "early_update has updated weights by then; change it before backward, or "
                    "leave early_update out of the plan"
                )

    def _require_used(self) -> None:
        """In the step that is made as ever; which parameters a static graph uses stays."""
        for parameter in () if self._seen else self._handed.values():
            if parameter.grad is None:
                raise _unused(self._names.get(id(parameter), "a parameter"))

    def _leave(self) -> None:
        """Left between backward and a step, the gradients that were used must not be again."""
        for parameter in self._handed.values() if self._seen else ():
            parameter.grad = None
        self._handed = {}


def _copied(settings: Settings) -> Settings:
    return [
        {n: v.clone() if isinstance(v, torch.Tensor) else v for n, v in group.items()}
        for group in settings
    ]


def _same(one: Any, other: Any) -> bool:
    if isinstance(one, torch.Tensor) and isinstance(other, torch.Tensor):
        return bool(torch.equal(one, other))
    return bool(one == other)


def _require(run: Run) -> None:
    require_per_parameter(run.optimizer)
    if any(replica.find_unused_parameters for replica in run.replicas):
        raise _unused("with find_unused_parameters a parameter")


def _unused(what: str) -> ExchangeError:
    return ExchangeError(
        f"{what} may have no gradient, and an optimizer leaves such parameters alone where a "
        "bucket holds zeros for them; use all of them, or leave early_update out of the plan"
    )
