"""`Run`: a replay that has yet to be told how long each op takes."""

from dataclasses import dataclass

import numpy as np

from paceline.graph import Graph, OpKind
from paceline.graph.graph import Int64
from paceline.replay import Contention, Timeline, Transfers, replay
from paceline.replay.hosts import SharedHosts

REST_NS = 2_000_000
"""A shorter wait is no rest: measured, passes after 2 ms last some 3 % longer, after 10 ms 9 %."""


@dataclass(frozen=True, eq=False)
class Run:
    """How a graph is replayed. `rested`: how many times as long work takes after a rest of its
    lane; a first replay shows which work that is, a second one prices it."""

    graph: Graph
    contention: Contention | None = None
    hosts: SharedHosts | None = None
    transfers: Transfers | None = None
    rested: float = 1.0

    def __call__(self, dur_ns: Int64) -> Timeline:
        timeline = self._replayed(dur_ns)
        if self.rested <= 1:
            return timeline
        return self._replayed(after_rests_ns(timeline, self.rested))

    def _replayed(self, dur_ns: Int64) -> Timeline:
        return replay(
            self.graph,
            prices=dur_ns,
            contention=self.contention,
            transfers=self.transfers,
            hosts=self.hosts,
        )


def after_rests_ns(timeline: Timeline, factor: float) -> Int64:
    """Durations with work that began after a rest of its lane taking longer."""
    ops, longer = timeline.graph.ops, timeline.dur_ns.copy()
    works = np.flatnonzero((ops.kind == OpKind.COMPUTE) & (longer > 0))
    for lane in np.unique(ops.lane[works]).tolist():
        mine = works[ops.lane[works] == lane]
        rest = timeline.start_ns[mine][1:] - timeline.end_ns[mine][:-1]
        after = mine[1:][rest >= REST_NS]
        longer[after] = np.rint(longer[after] * factor)
    return longer
