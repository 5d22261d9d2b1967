"""What goes along with collectives that are taken out: a host's calls, a library's delays."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from paceline.graph.graph import Bool, Graph, Int64
from paceline.graph.kinds import NONE, DepKind, LaneKind, OpKind, Phase
from paceline.graph.links import Links
from paceline.graph.membership import among


@dataclass(frozen=True, eq=False)
class HandOver:
    """How a graph's collectives are handed over."""

    graph: Graph
    links: Links

    def with_delays(self, calls: Int64) -> Bool:
        """These collectives of gradients, and what delays them on their library's thread in the
        same step."""
        ops, lanes = self.graph.ops, self.graph.lanes
        steps, step = np.unique(ops.step, return_inverse=True)
        theirs = np.zeros((len(lanes), len(steps)), np.bool_)
        theirs[ops.lane[calls], step[calls]] = True
        theirs[lanes.kind != LaneKind.COMM_THREAD] = False
        found: Bool = self._fed & (ops.kind == OpKind.HOST) & theirs[ops.lane, step]
        found[calls] = True
        return found

    def launches(self, goes: Bool) -> Int64:
        """The host's calls that hand over these ops and nothing else."""
        return self.launches_of(np.where(goes, 0, NONE))[0]

    def launches_of(self, whose: Int64) -> tuple[Int64, Int64]:
        """`whose` says by op the number of a rank's step, or NONE: the host's calls that hand over
        one step's ops and nothing else, ascending, and the number of each."""
        ops, count = self.graph.ops, len(self.graph)
        handing, across = self._handing, self._across
        mine = np.full(count, NONE, np.int64)
        handed = whose[handing.op] != NONE
        mine[handing.src[handed]] = whose[handing.op[handed]]
        others = among(count, across.src[whose[across.op] != mine[across.src]])
        calls = (mine != NONE) & (ops.kind == OpKind.HOST) & (ops.phase == Phase.COMMUNICATION)
        rows = np.flatnonzero(calls & (ops.tensor == NONE) & ~others)
        return rows, mine[rows]

    @cached_property
    def _fed(self) -> Bool:
        """Ops into which gradients lead."""
        leads = self.links.kind == DepKind.GRADIENT
        return among(len(self.graph), self.links.op[leads])

    @cached_property
    def _handing(self) -> Links:
        return self.links.where(self.links.kind == DepKind.LAUNCH)

    @cached_property
    def _across(self) -> Links:
        """Links from one lane to another."""
        lane = self.graph.ops.lane
        return self.links.where(lane[self.links.src] != lane[self.links.op])
