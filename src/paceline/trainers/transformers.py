"""Hugging Face: `Trainer(callbacks=[ApplyCallback("plan.json"), WatchCallback([tracker])])`."""

import time
from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any

from transformers import TrainerCallback

from paceline.record.transformers import RecordCallback
from paceline.report.trackers import Tracker
from paceline.report.trackers.figures import Expected
from paceline.runtime.exchange import Sent
from paceline.strategies.torch_applied import Given
from paceline.trainers.torch_entered import entered
from paceline.trainers.watch import WARM, Watch
from paceline.verify import Measured

__all__ = ["ApplyCallback", "RecordCallback", "WatchCallback"]


class ApplyCallback(TrainerCallback):
    """Trains under a plan, as `paceline apply` does, and undoes it when training ends. `sent` says
    what was sent.

    The Trainer tells its callbacks nothing of an exception: the plan is then left in force.
    """

    def __init__(self, plan: Given, *, forced: bool = False) -> None:
        self._plan, self._forced = plan, forced
        self._open = ExitStack()
        self.sent: Sent | None = None

    def on_train_begin(
        self, args: Any, state: Any, control: Any, optimizer: Any = None, **_: Any
    ) -> None:
        inner = getattr(optimizer, "optimizer", optimizer)  # accelerate wraps it
        self.sent = self._open.enter_context(entered(self._plan, inner, forced=self._forced))

    def on_train_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        self._open.close()


class WatchCallback(TrainerCallback):
    """Writes how long steps take, beside what was predicted, on rank 0. `measured` says it in the
    end."""

    def __init__(
        self, trackers: Sequence[Tracker] = (), expected: Expected | None = None, warm: int = WARM
    ) -> None:
        self._watch = Watch(trackers, expected, warm)
        self.measured: Measured | None = None

    def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        if state.is_world_process_zero:
            self._watch.begin(state.global_step)

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        if state.is_world_process_zero:
            self._watch.border(state.global_step, time.perf_counter_ns())

    def on_evaluate(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        self._watch.pause()

    def on_save(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        self._watch.pause()

    def on_train_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        self.measured = self._watch.end()
