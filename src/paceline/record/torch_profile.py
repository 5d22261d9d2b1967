"""One session of torch's profiler around some steps, and what recording an op costs."""

import statistics
import time
from pathlib import Path

import torch
from torch.profiler import ProfilerActivity, profile

from paceline.record.sidecar import Cost


class Session:
    """Kineto between `start` and `stop`; `export` writes the trace."""

    def __init__(self, path: Path, *, detail: bool) -> None:
        self.path = path
        self.detail = detail
        self.paused_ns = 0
        self._profile = profile(
            activities=_activities(), record_shapes=detail, profile_memory=detail, acc_events=False
        )

    def start(self) -> None:
        self._profile.start()

    def pause(self) -> None:
        """Open no more events. Those that are open may still close: `stop` frees them, so it must
        wait until the optimizer's own event and those of other threads have closed."""
        self.paused_ns = time.time_ns()
        self._profile.toggle_collection_dynamic(False, _activities())

    def stop(self) -> None:
        self._profile.stop()

    def export(self) -> None:
        """Write under another name first: a trace that is there is whole."""
        part = self.path.with_suffix(".part")
        self._profile.export_chrome_trace(str(part))
        part.replace(self.path)


def op_cost_ns(repeats: int = 5, ops: int = 400) -> float:
    """What the profiler adds to one small op: the same loop with and without it, least of each."""
    tensor = torch.ones(8)

    def loop() -> int:
        begin = time.perf_counter_ns()
        for _ in range(ops):
            tensor.add_(1.0)
        return time.perf_counter_ns() - begin

    bare = min(loop() for _ in range(repeats))
    with profile(activities=[ProfilerActivity.CPU]):
        watched = min(loop() for _ in range(repeats))
    return max(0.0, (watched - bare) / ops)


def cost_of(plain_ns: list[int], recorded_ns: list[int]) -> Cost:
    """The cost model of a finished recording."""
    return Cost(
        op_ns=op_cost_ns(),
        plain_step_ns=int(statistics.median(plain_ns)) if plain_ns else 0,
        recorded_step_ns=int(statistics.median(recorded_ns)) if recorded_ns else 0,
    )


def _activities() -> list[ProfilerActivity]:
    wanted = [ProfilerActivity.CPU]
    return [*wanted, ProfilerActivity.CUDA] if torch.cuda.is_available() else wanted
