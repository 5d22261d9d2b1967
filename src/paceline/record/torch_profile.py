"""One session of torch's profiler around some steps, and what recording an op costs."""

import statistics
import time
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch.profiler import ProfilerActivity, profile

from paceline.record.sidecar import Cost
from paceline.record.torch_faults import fault_cost_ns, loop_fault_cost_ns
from paceline.record.torch_heap import HeapReserve, heap_bytes

LEAST, MOST = 0.8, 5.0
"""How far the measured price of an event may lie from the loop's, which keeps all caches warm."""


@dataclass(frozen=True)
class Times:
    """How long one step took, and how much CPU time of this process."""

    wall_ns: int
    cpu_ns: int
    faults: int


class Session:
    """Kineto between `start` and `stop`; `export` writes the trace."""

    def __init__(
        self, path: Path, *, detail: bool, events: float = 0.0, growth_bytes: float = 0.0
    ) -> None:
        """`events`: how many to expect in all, and `growth_bytes`: by how much the heap grows
        meanwhile, where that is known."""
        self.path = path
        self.detail = detail
        self.steps = 0  # that ended while it ran, paused or not
        self._runs = False
        self._reserve = HeapReserve(events, growth_bytes)
        self._heap_bytes = heap_bytes()
        self._profile = profile(
            activities=_activities(), record_shapes=detail, profile_memory=detail, acc_events=False
        )

    def start(self) -> None:
        with warnings.catch_warnings():  # torch 2.11 warns that events go with the session
            warnings.simplefilter("ignore", UserWarning)
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
        """A thread's ranges go on and off in a microsecond. A device's kernels stay on: a session
        that ends while torch does not collect them loses all that it had (torch 2.11)."""
        if self._runs is runs:
            return
        self._runs = runs
        torch.autograd._enable_record_function(runs)

    @property
    def growth_bytes(self) -> float:
        """Of the heap up to now, for each step."""
        return max(0, heap_bytes() - self._heap_bytes) / max(1, self.steps)

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
class Counted:
    """Events of a step, or in a whole trace."""

    ops: float  # on host threads
    calls: float  # of these, calls of a device's driver


@dataclass(frozen=True)
class Taken:
    """How long the steps of a recording took, by what was observed of them."""

    plain: list[Times]  # before anything was recorded
    recorded: list[Times]
    between: list[Times]  # plain steps that took turns with the recorded ones
    after: list[Times]  # plain steps behind them, where those are the job's own


@dataclass(frozen=True)
class LoopCosts:
    """What loops in this process tell: of an event, of a call of a device's driver besides, and of
    a fresh page."""

    op_ns: float
    call_ns: float
    fault_ns: float


def cost_of(taken: Taken, step: Counted, loops: LoopCosts) -> Cost:
    """The cost model of a recording.

    Loops of small ops in this very process tell what an event and a call of the driver cost. CPU
    time by which recorded steps exceed plain ones then scales both: that holds cache misses that no
    loop shows, and neighbours on the machine do not move it. The loops bound it, for where steps
    vary by more than that, or where a thread spins until its device is done. Page faults, of which
    recorded steps have fewer or more, count for themselves. Plain steps that took turns with
    recorded ones tell the price better; else those of both sides, which a drift moves apart.
    """
    recorded = taken.recorded
    sides = [taken.between] if taken.between else [taken.plain, taken.after]
    fault_ns, scale = 0.0, 1.0
    known = loops.op_ns * step.ops + loops.call_ns * step.calls
    if taken.plain and recorded and known:
        usual = [*taken.plain, *taken.after]
        fault_ns = fault_cost_ns(
            [x.faults for x in usual], [x.cpu_ns for x in usual], loops.fault_ns
        )
        beside_ns = statistics.mean(_without_faults_ns(side, fault_ns) for side in sides if side)
        extra = _without_faults_ns(recorded, fault_ns) - beside_ns
        scale = min(max(extra / known, LEAST), MOST)
    return Cost(
        op_ns=loops.op_ns * scale,
        call_ns=loops.call_ns * scale,
        fault_ns=fault_ns,
        plain_step_ns=int(statistics.median(x.wall_ns for x in taken.plain)) if taken.plain else 0,
        recorded_step_ns=int(statistics.median(x.wall_ns for x in recorded)) if recorded else 0,
    )


def _without_faults_ns(steps: Sequence[Times], fault_ns: float) -> float:
    """The CPU time of a step but for its page faults."""
    return statistics.median(step.cpu_ns - step.faults * fault_ns for step in steps)


def loop_costs() -> LoopCosts:
    op_ns, call_ns = loop_cost_ns(torch.ones(8)), 0.0
    if torch.cuda.is_available():
        call_ns = max(0.0, loop_cost_ns(torch.ones(8, device="cuda")) - 2 * op_ns)
    return LoopCosts(op_ns, call_ns, loop_fault_cost_ns())


def loop_cost_ns(tensor: torch.Tensor, repeats: int = 5, ops: int = 400) -> float:
    """What recording costs a small op, which makes one event and on a device a call with another:
    the same loop of them with and without it; least of each."""

    def loop() -> int:
        begin = time.thread_time_ns()
        for _ in range(ops):
            tensor.neg_()
        took = time.thread_time_ns() - begin
        if tensor.is_cuda:
            torch.cuda.synchronize()
        return took

    bare = min(loop() for _ in range(repeats))
    reserve = HeapReserve(2 * repeats * ops)
    with profile(activities=_activities()):
        watched = min(loop() for _ in range(repeats))
    reserve.release()
    return max(0.0, (watched - bare) / ops)


def events_in(trace: Path) -> int:
    """How many timed events a written trace holds."""
    return sum(1 for _ in _events(trace))


def counted_in(trace: Path) -> Counted:
    """How many of them are of the host."""
    ops = calls = 0
    for line in _events(trace):
        calls += b'"cat": "cuda_' in line  # runtime and driver
        ops += b'"cat": "kernel"' not in line and b'"cat": "gpu_' not in line
    return Counted(ops, calls)


def _events(trace: Path) -> Iterator[bytes]:
    with trace.open("rb") as file:
        yield from (line for line in file if b'"ph": "X"' in line)


def _activities() -> list[ProfilerActivity]:
    wanted = [ProfilerActivity.CPU]
    return [*wanted, ProfilerActivity.CUDA] if torch.cuda.is_available() else wanted
