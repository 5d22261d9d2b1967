"""One session of torch's profiler around some steps, and what recording an op costs."""

import mmap
import statistics
import time
from dataclasses import dataclass
from pathlib import Path

import torch
from torch.profiler import ProfilerActivity, profile

from paceline.record.sidecar import Cost
from paceline.record.torch_heap import HeapReserve

LEAST, MOST = 0.8, 5.0
"""How far the measured price of an event may lie from the loop's, which keeps all caches warm."""
FRESH_PAGES = 2048  # on which the price of a page fault is measured


@dataclass(frozen=True)
class Times:
    """How long one step took, and how much CPU time of this process."""

    wall_ns: int
    cpu_ns: int
    faults: int


class Session:
    """Kineto between `start` and `stop`; `export` writes the trace."""

    def __init__(self, path: Path, *, detail: bool, events: float = 0.0) -> None:
        """`events`: how many to expect in all, where that is known."""
        self.path = path
        self.detail = detail
        self._runs = False
        self._reserve = HeapReserve(events)
        self._profile = profile(
            activities=_activities(), record_shapes=detail, profile_memory=detail, acc_events=False
        )

    def start(self) -> None:
        self._profile.start()
        self._runs = True

    def pause(self) -> None:
        """Open no more events. Those that are open may still close: `stop` frees them, so it must
        wait until the optimizer's own event and those of other threads have closed."""
        self._collect(False)

    def resume(self) -> None:
        """Open events again after a pause."""
        self._collect(True)

    def _collect(self, runs: bool) -> None:
        """A thread's ranges go on and off in a microsecond; a device's only with a warning in the
        job's output."""
        if self._runs is runs:
            return
        self._runs = runs
        if torch.cuda.is_available():
            self._profile.toggle_collection_dynamic(runs, _activities())
        else:
            torch.autograd._enable_record_function(runs)

    def stop(self) -> None:
        self._profile.stop()
        torch.autograd._enable_record_function(True)
        self._reserve.release()

    def export(self) -> None:
        """Write under another name first: a trace that is there is whole."""
        part = self.path.with_suffix(".part")
        self._profile.export_chrome_trace(str(part))
        part.replace(self.path)


@dataclass(frozen=True)
class Taken:
    """How long the steps of a recording took, by what was observed of them."""

    plain: list[Times]  # before anything was recorded
    recorded: list[Times]
    between: list[Times]  # plain steps that took turns with the recorded ones


def cost_of(taken: Taken, events_per_step: float) -> Cost:
    """The cost model of a finished recording.

    An event's price is the CPU time by which recorded steps exceed plain ones, shared among their
    events: that holds cache misses that no loop shows, and neighbours on the machine do not move
    it. A loop of small ops in this very process bounds it, for where steps vary by more than that.
    Page faults that recorded steps are spared, or have more of, count for themselves. Plain steps
    that took turns with recorded ones are spared them too, but tell the price better.
    """
    plain, recorded = taken.plain, taken.recorded
    beside = taken.between or plain
    price, spared = loop_cost_ns(), 0.0
    if plain and recorded and events_per_step:
        spared = _spared_ns(plain, recorded)
        extra = statistics.median(x.cpu_ns for x in recorded) + _spared_ns(beside, recorded)
        extra -= statistics.median(x.cpu_ns for x in beside)
        price = min(max(extra / events_per_step, price * LEAST), price * MOST)
    return Cost(
        op_ns=price,
        refault_ns=round(spared),
        plain_step_ns=int(statistics.median(x.wall_ns for x in plain)) if plain else 0,
        recorded_step_ns=int(statistics.median(x.wall_ns for x in recorded)) if recorded else 0,
    )


def _spared_ns(plain: list[Times], recorded: list[Times]) -> float:
    """What the page faults cost that plain steps have beyond recorded ones."""
    fewer = statistics.median(x.faults for x in plain)
    fewer -= statistics.median(x.faults for x in recorded)
    return fewer * fault_cost_ns() if fewer else 0.0


def loop_cost_ns(repeats: int = 5, ops: int = 400) -> float:
    """What one event of the profiler costs: the same loop of small ops, each of which makes one
    event, with and without it; least of each."""
    tensor = torch.ones(8)

    def loop() -> int:
        begin = time.thread_time_ns()
        for _ in range(ops):
            tensor.neg_()
        return time.thread_time_ns() - begin

    bare = min(loop() for _ in range(repeats))
    reserve = HeapReserve(repeats * ops)
    with profile(activities=[ProfilerActivity.CPU]):
        watched = min(loop() for _ in range(repeats))
    reserve.release()
    return max(0.0, (watched - bare) / ops)


def fault_cost_ns(repeats: int = 9) -> float:
    """What a page costs that is asked for, first written, and given back: over writing it again."""
    return max(0.0, statistics.median(_fresh_pages_ns() for _ in range(repeats)) / FRESH_PAGES)


def _fresh_pages_ns() -> int:
    size = FRESH_PAGES * mmap.PAGESIZE
    begin = time.thread_time_ns()
    pages = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    pages.madvise(mmap.MADV_NOHUGEPAGE)
    whole = torch.frombuffer(pages, dtype=torch.uint8)
    whole.fill_(1)
    written = time.thread_time_ns()
    whole.fill_(2)
    again = time.thread_time_ns() - written
    del whole
    pages.close()
    return time.thread_time_ns() - begin - 2 * again


def events_in(trace: Path) -> int:
    """How many timed events a written trace holds."""
    with trace.open("rb") as file:
        return sum(line.count(b'"ph": "X"') for line in file)


def _activities() -> list[ProfilerActivity]:
    wanted = [ProfilerActivity.CPU]
    return [*wanted, ProfilerActivity.CUDA] if torch.cuda.is_available() else wanted
