"""Replay in plain Python: the definition of what a timeline is. The native engine equals it.

Time goes on in rounds. A round at the instant `now` has four parts; while ops of no duration end
in it, another round at the same instant follows.

1. Ops that end now end, in id order: their lanes are free, their successors may become ready.
2. Every free lane takes its next op, which *arrives*: a RECORDED lane the next by id, once that is
   ready; a PRIORITY lane the ready op that is least by (priority, time it became ready, id).
3. An op that arrived *starts*: at once; or, in an instance, when its last member has arrived; or,
   where it drains lanes, when they have ended all that they had been given.
4. The pace (`paceline.replay.pace`) says when running ops will end.
"""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from heapq import heappop, heappush

import numpy as np

from paceline.graph import NONE, DepKind, Discipline, Graph
from paceline.replay.columns import Columns
from paceline.replay.pace import Pace
from paceline.replay.stuck import stuck


def replay_reference(graph: Graph, pace: Pace) -> Columns:
    """When each op arrives, starts and ends; `pace` knows how long each takes once started."""
    run = _Run(_Jobs.of(graph), pace)
    run.to_the_end()
    if len(run.order) < len(graph):
        raise stuck(graph, np.array(run.ended), np.array(run.ready))
    return Columns.of((run.ready, run.start, run.end), run.previous, run.order, run.drained)


@dataclass(frozen=True)
class _Jobs:
    """A graph as Python lists, with successors instead of predecessors."""

    lane: list[int]
    priority: list[int]
    instance: list[int]
    waits_for: list[int]  # how many predecessors each op has
    successors: list[list[int]]
    members: dict[int, list[int]]  # of each instance
    recorded: list[list[int] | None]  # lane -> its ops in id order; None for PRIORITY lanes
    drains: dict[int, list[int]]  # op -> the lanes it drains
    waits_for_launch: list[int]  # how many LAUNCH predecessors each op has
    launches: dict[int, list[int]]  # host call -> what it launches; empty where nothing drains

    @classmethod
    def of(cls, graph: Graph) -> "_Jobs":
        ops, deps = graph.ops, graph.deps
        owner = np.repeat(np.arange(len(ops)), np.diff(deps.ptr))
        launch = (deps.kind == DepKind.LAUNCH) & (len(graph.drains.op) > 0)
        joined = np.flatnonzero(ops.instance != NONE)
        successors = _listed(deps.src.tolist(), owner.tolist())
        return cls(
            lane=ops.lane.tolist(),
            priority=ops.priority.tolist(),
            instance=ops.instance.tolist(),
            waits_for=np.diff(deps.ptr).tolist(),
            successors=[successors.get(op, []) for op in range(len(ops))],
            members=_listed(ops.instance[joined].tolist(), joined.tolist()),
            recorded=_recorded(graph),
            drains=_listed(graph.drains.op.tolist(), graph.drains.lane.tolist()),
            waits_for_launch=np.bincount(owner[launch], minlength=len(ops)).tolist(),
            launches=_listed(deps.src[launch].tolist(), owner[launch].tolist()),
        )


def _listed(keys: list[int], values: list[int]) -> dict[int, list[int]]:
    found: dict[int, list[int]] = defaultdict(list)
    for key, value in zip(keys, values):
        found[key].append(value)
    return dict(found)


def _recorded(graph: Graph) -> list[list[int] | None]:
    on_lane = _listed(graph.ops.lane.tolist(), list(range(len(graph))))
    return [
        on_lane.get(lane, []) if how == Discipline.RECORDED else None
        for lane, how in enumerate(graph.lanes.discipline.tolist())
    ]


@dataclass
class _Run:
    """One replay under way."""

    jobs: _Jobs
    pace: Pace
    order: list[int] = field(default_factory=list)  # ended ops
    drained: list[tuple[int, int]] = field(default_factory=list)

    def __post_init__(self) -> None:
        jobs, count, lanes = self.jobs, len(self.jobs.lane), len(self.jobs.recorded)
        self.ready, self.start, self.end = [NONE] * count, [NONE] * count, [NONE] * count
        self.previous, self.ended = [NONE] * count, [False] * count
        self.missing = list(jobs.waits_for)  # predecessors that have not ended
        self.absent = {i: len(members) for i, members in jobs.members.items()}
        self.free, self.last, self.cursor = [True] * lanes, [NONE] * lanes, [0] * lanes
        self.queue: list[list[tuple[int, int, int]]] = [[] for _ in range(lanes)]
        self.touched = set(range(lanes))  # lanes that may take an op in this round
        self.unlaunched = list(jobs.waits_for_launch)
        drained = {lane for lanes in jobs.drains.values() for lane in lanes}
        self.given = {lane: set[int]() for lane in drained if jobs.recorded[lane] is None}
        self.holds: dict[int, list[int]] = {}  # op -> draining ops that wait for it
        self.held = dict.fromkeys(jobs.drains, 0)  # draining op -> how many ops it waits for

    def to_the_end(self) -> None:
        for op, missing in enumerate(self.missing):
            if not missing:
                self._becomes_ready(op, 0)
        self._lanes_take(0)
        while (now := self.pace.next_end()) is not None:
            for op in self.pace.take_ended(now):
                self._end(op, now)
            self._lanes_take(now)

    def _becomes_ready(self, op: int, now: int) -> None:
        lane = self.jobs.lane[op]
        self.touched.add(lane)
        if self.jobs.recorded[lane] is None:
            heappush(self.queue[lane], (self.jobs.priority[op], now, op))

    def _end(self, op: int, now: int) -> None:
        jobs = self.jobs
        self.end[op], self.ended[op] = now, True
        self.order.append(op)
        lane = jobs.lane[op]
        self.free[lane] = True
        self.touched.add(lane)
        for successor in jobs.successors[op]:
            self.missing[successor] -= 1
            if not self.missing[successor]:
                self._becomes_ready(successor, now)
        if self.held:
            self._end_for_drains(op, now)

    def _lanes_take(self, now: int) -> None:
        """Every free lane takes its next op; then those that arrived start if they can."""
        arrived = [op for lane in self.touched if (op := self._take(lane, now)) != NONE]
        self.touched.clear()
        draining = []
        for op in arrived:
            instance = self.jobs.instance[op]
            if op in self.held:
                draining.append(op)
            elif instance == NONE:
                self._begin(op, now)
            else:
                self.absent[instance] -= 1
                if not self.absent[instance]:
                    for member in self.jobs.members[instance]:
                        self._begin(member, now)
        for op in draining:  # after all have arrived: what a lane has been given is then settled
            self._drain(op, now)
        self.pace.settle(now)

    def _take(self, lane: int, now: int) -> int:
        if not self.free[lane]:
            return NONE
        recorded = self.jobs.recorded[lane]
        if recorded is None:
            if not self.queue[lane]:
                return NONE
            op = heappop(self.queue[lane])[2]
        else:
            at = self.cursor[lane]
            if at == len(recorded) or self.missing[recorded[at]]:
                return NONE
            op = recorded[at]
            self.cursor[lane] = at + 1
        self._arrive(op, lane, now)
        return op

    def _arrive(self, op: int, lane: int, now: int) -> None:
        self.ready[op], self.previous[op] = now, self.last[lane]
        self.free[lane], self.last[lane] = False, op
        if lane in self.given and not self.jobs.waits_for_launch[op]:
            self.given[lane].add(op)

    def _begin(self, op: int, now: int) -> None:
        self.start[op] = now
        self.pace.begin(op, now)

    def _drain(self, op: int, now: int) -> None:
        """`op` has arrived: it waits for what its lanes have been given and have not ended."""
        for lane in self.jobs.drains[op]:
            for other in self._given(lane):
                self.held[op] += 1
                self.holds.setdefault(other, []).append(op)
                self.drained.append((op, other))
        if not self.held[op]:
            self._begin(op, now)

    def _given(self, lane: int) -> Iterable[int]:
        """What a lane has been given and has not ended. On a RECORDED lane nothing stands before an
        op whose launch has not ended: what another thread launched ahead of it was given later."""
        recorded = self.jobs.recorded[lane]
        if recorded is None:
            yield from self.given[lane]
            return
        if not self.free[lane]:
            yield self.last[lane]
        for op in recorded[self.cursor[lane] :]:
            if self.unlaunched[op]:
                return
            if self.jobs.waits_for_launch[op]:
                yield op

    def _end_for_drains(self, op: int, now: int) -> None:
        """Launched ops are given to their lanes; an op that ended holds nobody any more."""
        jobs = self.jobs
        for launched in jobs.launches.get(op, ()):
            self.unlaunched[launched] -= 1
            if not self.unlaunched[launched] and jobs.lane[launched] in self.given:
                self.given[jobs.lane[launched]].add(launched)
        if jobs.lane[op] in self.given:
            self.given[jobs.lane[op]].discard(op)
        for waiter in self.holds.pop(op, ()):
            self.held[waiter] -= 1
            if not self.held[waiter]:
                self._begin(waiter, now)
