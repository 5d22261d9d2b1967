"""`RankView`: one rank's trace with what all dependency rules look up in it, computed once."""

from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np
from numpy.typing import NDArray

from paceline.graph import NONE, LaneKind
from paceline.record.sidecar import Mode, RecordedHost, Sidecar, Step
from paceline.trace.trace import Bool, Category, Int32, Int64, Trace

DEVICE_WORK: Final = (Category.KERNEL, Category.MEMCPY, Category.MEMSET)
_UPDATE: Final = "Optimizer.step#"
Whole = Int32 | Int64
_OWN_OPS: Final = (*DEVICE_WORK, Category.COMMUNICATION)
_ON_HOST: Final = (Category.CPU_OP, Category.ANNOTATION, Category.RUNTIME, Category.OTHER)


@dataclass(frozen=True, eq=False)
class RankView:
    """A trace, its sidecar if it was recorded by Paceline, and lookups over both."""

    trace: Trace
    sidecar: Sidecar | None = None

    @cached_property
    def origin_ns(self) -> int:
        """The first moment that the trace or its steps speak of."""
        marked: list[int] = self.trace.steps.start_ns.tolist()
        recorded = [step.begin_ns for step in self.recorded_steps]
        return min([int(self.trace.events.start_ns.min()), *marked, *recorded])

    @cached_property
    def last_ns(self) -> int:
        marked: list[int] = self.trace.steps.end_ns.tolist()
        recorded = [step.end_ns for step in self.recorded_steps]
        return max([int(self.trace.events.end_ns.max()), *marked, *recorded])

    @cached_property
    def span_ns(self) -> int:
        return self.last_ns - self.origin_ns + 2

    def key(self, lane: Whole, at_ns: Int64) -> Int64:
        """One number that orders (lane, moment) pairs; moments outside the trace are clipped."""
        offset = np.clip(np.asarray(at_ns, np.int64) - self.origin_ns, -1, self.span_ns - 1)
        return np.asarray(lane, np.int64) * (self.span_ns + 1) + offset + 1

    @cached_property
    def is_own_op(self) -> Bool:
        """Events that become ops one to one: device work, transfers on communication threads."""
        return np.isin(self.trace.events.category, _OWN_OPS)

    @cached_property
    def is_host(self) -> Bool:
        """Events whose self time is the host threads' time."""
        used = np.zeros(len(self.trace.lanes), np.bool_)
        used[self.host_lanes] = True
        events = self.trace.events
        return np.isin(events.category, _ON_HOST) & used[events.lane]

    @cached_property
    def host_lanes(self) -> list[int]:
        """Threads that take part: those that run operators, and the training loop's own."""
        events = self.trace.events
        works = np.isin(events.category, (Category.CPU_OP, Category.ANNOTATION))
        lanes = set(np.unique(events.lane[works]).tolist())
        if self._recorded_main != NONE:
            lanes.add(self._recorded_main)
        if not lanes:
            lanes = set(np.unique(events.lane[events.category == Category.RUNTIME]).tolist())
        return sorted(lanes)

    @cached_property
    def main_lane(self) -> int:
        """The thread of the training loop: the recorded one, or that of the optimizer, or the one
        that runs most; NONE without any."""
        if self._recorded_main != NONE:
            return self._recorded_main
        if not self.host_lanes:
            return NONE
        events = self.trace.events
        updates = self.names_with(_UPDATE) & self.is_host
        if updates.any():
            return int(np.bincount(events.lane[updates]).argmax())
        forward = events.category == Category.CPU_OP
        forward = forward & ~events.backward if (forward & ~events.backward).any() else forward
        lanes = events.lane[forward] if forward.any() else events.lane[self.is_host]
        return int(np.bincount(lanes).argmax())

    @cached_property
    def backward_lane(self) -> int:
        """The thread beside the training loop's that runs most of the backward pass; NONE where
        the loop's own does, as on processors."""
        events = self.trace.events
        there = (events.category == Category.CPU_OP) & events.backward
        lanes = events.lane[there & (events.lane != self.main_lane)]
        return int(np.bincount(lanes).argmax()) if len(lanes) else NONE

    @cached_property
    def _recorded_main(self) -> int:
        hosts = self.sidecar.of(RecordedHost) if self.sidecar else []
        return self.thread_lane(hosts[0].main_thread) if hosts else NONE

    def thread_lane(self, thread: int) -> int:
        """The lane of a system thread id; NONE where the trace shows nothing on it."""
        for row, lane in enumerate(self.trace.lanes):
            if lane.thread == thread and lane.kind is not LaneKind.STREAM:
                return row
        return NONE

    @cached_property
    def recorded_steps(self) -> list[Step]:
        steps = self.sidecar.of(Step) if self.sidecar else []
        return [step for step in steps if step.mode is Mode.RECORDED]

    @cached_property
    def calls(self) -> "Calls":
        return Calls.of(self)

    def names_with(self, *prefixes: str) -> Bool:
        """Which events' names start with one of the prefixes."""
        chosen = np.array([name.startswith(prefixes) for name in self.trace.names] or [False])
        return chosen[self.trace.events.name]


@dataclass(frozen=True, eq=False)
class Calls:
    """Device work and the driver calls that launched it, in order of (thread, call start)."""

    work: NDArray[np.intp]  # row of the device event
    call: NDArray[np.intp]  # row of the driver call
    key: Int64  # of (thread, call start)
    orphans: int  # device events without a call in the trace

    @staticmethod
    def of(view: RankView) -> "Calls":
        events = view.trace.events
        work = np.flatnonzero(np.isin(events.category, DEVICE_WORK))
        call = np.flatnonzero((events.category == Category.RUNTIME) & (events.correlation >= 0))
        call = call[np.argsort(events.correlation[call], kind="stable")]
        numbers = events.correlation[call]
        at = np.searchsorted(numbers, events.correlation[work])
        found = at < len(numbers)
        found[found] = numbers[at[found]] == events.correlation[work[found]]
        found &= events.correlation[work] >= 0
        work, call, total = work[found], call[at[found]], len(work)
        key = view.key(events.lane[call], events.start_ns[call])
        order = np.argsort(key, kind="stable")
        return Calls(work[order], call[order], key[order], total - len(work))

    @cached_property
    def call_of(self) -> dict[int, int]:
        return dict(zip(self.work.tolist(), self.call.tolist()))


def call_column(view: RankView) -> NDArray[np.int64]:
    """For each event the row of the call that launched it; NONE for all others."""
    column = np.full(len(view.trace.events), NONE, np.int64)
    column[view.calls.work] = view.calls.call
    return column
