"""A plain replay to compare with: an event loop around one heap, over lists of integers.

What a good engineer writes in an hour: successors in CSR form, a heap of running ops by their end,
and for each lane what waits. It knows lanes in recorded order and by priority, and ops that start
together; it knows neither drains nor shared rates. Its step equals `paceline.replay`'s.
"""

from collections import defaultdict
from dataclasses import dataclass
from heapq import heappop, heappush

import numpy as np

from paceline.graph import NONE, Discipline, Graph
from paceline.graph.graph import Bool, Int64


@dataclass(frozen=True, eq=False)
class Plain:
    """A graph as lists of integers, made once for all replays of it."""

    dur_ns: list[int]
    lane: list[int]
    priority: list[int]  # of ops on lanes in recorded order: all 0, since their id decides
    waits_for: list[int]  # predecessors; in recorded order the lane's last op is one of them
    succ_ptr: list[int]
    succ: list[int]
    instance: list[int]
    members: dict[int, list[int]]
    lanes: int

    @classmethod
    def of(cls, graph: Graph) -> "Plain":
        if len(graph.drains.op):
            raise ValueError("plain replay knows no drains; this graph has some")
        ops = graph.ops
        recorded = graph.lanes.discipline[ops.lane] == Discipline.RECORDED
        before, after = _links(graph, recorded)
        order = np.argsort(before, kind="stable")
        members: dict[int, list[int]] = defaultdict(list)
        for op in np.flatnonzero(ops.instance != NONE).tolist():
            members[int(ops.instance[op])].append(op)
        return cls(
            dur_ns=ops.dur_ns.tolist(),
            lane=ops.lane.tolist(),
            priority=np.where(recorded, 0, ops.priority).tolist(),
            waits_for=np.bincount(after, minlength=len(ops)).tolist(),
            succ_ptr=np.cumsum([0, *np.bincount(before, minlength=len(ops))]).tolist(),
            succ=after[order].tolist(),
            instance=ops.instance.tolist(),
            members=dict(members),
            lanes=len(graph.lanes),
        )

    def step_ns(self) -> int:
        """When the last op ends. One long function, since calls would be a third of its time."""
        dur, lane_of, instance = self.dur_ns, self.lane, self.instance
        priority, succ_ptr, succ = self.priority, self.succ_ptr, self.succ
        missing = self.waits_for.copy()
        absent = {joined: len(members) for joined, members in self.members.items()}
        waiting: list[list[tuple[int, int, int]]] = [[] for _ in range(self.lanes)]
        free = [True] * self.lanes
        running: list[tuple[int, int]] = []
        touched: set[int] = set()
        now = 0
        for op, count in enumerate(missing):
            if not count:
                heappush(waiting[lane_of[op]], (priority[op], 0, op))
                touched.add(lane_of[op])
        while True:
            for lane in touched:
                if not free[lane] or not waiting[lane]:
                    continue
                free[lane] = False
                op = heappop(waiting[lane])[2]
                joined = instance[op]
                if joined == NONE:
                    heappush(running, (now + dur[op], op))
                else:
                    absent[joined] -= 1
                    if not absent[joined]:
                        for member in self.members[joined]:
                            heappush(running, (now + dur[member], member))
            touched.clear()
            if not running:
                return now
            now = running[0][0]
            ended = []
            while running and running[0][0] == now:
                ended.append(heappop(running)[1])
            for op in ended:
                lane = lane_of[op]
                free[lane] = True
                touched.add(lane)
                for after in succ[succ_ptr[op] : succ_ptr[op + 1]]:
                    missing[after] -= 1
                    if not missing[after]:
                        lane = lane_of[after]
                        heappush(waiting[lane], (priority[after], now, after))
                        touched.add(lane)


def _links(graph: Graph, recorded: Bool) -> tuple[Int64, Int64]:
    """Pairs (before, after): the graph's dependencies, and each recorded lane's order."""
    count = len(graph)
    owner = np.repeat(np.arange(count), np.diff(graph.deps.ptr))
    by_lane = np.flatnonzero(recorded)
    by_lane = by_lane[np.argsort(graph.ops.lane[by_lane], kind="stable")]
    same = graph.ops.lane[by_lane[1:]] == graph.ops.lane[by_lane[:-1]]
    before = np.concatenate([graph.deps.src, by_lane[:-1][same]])
    return before, np.concatenate([owner, by_lane[1:][same]])
