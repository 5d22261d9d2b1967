"""Lightning: `Trainer(callbacks=[ApplyCallback("plan.json"), WatchCallback([tracker])])`."""

import time
from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any

from lightning.pytorch import Callback

from paceline.record.lightning import RecordCallback
from paceline.report.trackers import Tracker
from paceline.report.trackers.figures import Expected
from paceline.runtime.exchange import Sent
from paceline.strategies.torch_applied import Given
from paceline.trainers.torch_entered import entered
from paceline.trainers.watch import WARM, Watch
from paceline.verify import Measured

__all__ = ["ApplyCallback", "RecordCallback", "WatchCallback"]


class ApplyCallback(Callback):
    """Trains under a plan, as `paceline apply` does, and undoes it when training ends, however it
    ends. `sent` says what was sent."""

    def __init__(self, plan: Given, *, forced: bool = False) -> None:
        self._plan, self._forced = plan, forced
        self._open = ExitStack()
        self.sent: Sent | None = None

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        if len(trainer.optimizers) != 1:
            raise ValueError(
                f"a plan is of one optimizer, and this module has {len(trainer.optimizers)}; "
                "use paceline.applied for the one that is meant"
            )
        plan = entered(self._plan, trainer.optimizers[0], forced=self._forced)
        self.sent = self._open.enter_context(plan)

    def on_train_end(self, trainer: Any, pl_module: Any) -> None:
        self._open.close()

    def on_exception(self, trainer: Any, pl_module: Any, exception: BaseException) -> None:
        self._open.__exit__(type(exception), exception, exception.__traceback__)


class WatchCallback(Callback):
    """Writes how long steps take, beside what was predicted, on rank 0. `measured` says it in the
    end."""

    def __init__(
        self, trackers: Sequence[Tracker] = (), expected: Expected | None = None, warm: int = WARM
    ) -> None:
        self._watch = Watch(trackers, expected, warm)
        self._step = -1
        self.measured: Measured | None = None

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        self._step = trainer.global_step
        if trainer.is_global_zero:
            self._watch.begin(self._step)

    def on_train_batch_end(self, trainer: Any, *_: Any) -> None:
        if trainer.is_global_zero and trainer.global_step > self._step:
            self._step = trainer.global_step
            self._watch.border(self._step, time.perf_counter_ns())

    def on_validation_start(self, trainer: Any, pl_module: Any) -> None:
        self._watch.pause()

    def on_train_epoch_end(self, trainer: Any, pl_module: Any) -> None:
        self._watch.pause()

    def on_train_end(self, trainer: Any, pl_module: Any) -> None:
        self.measured = self._watch.end()
