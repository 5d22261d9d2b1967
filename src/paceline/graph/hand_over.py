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
    """How a graph's collectives are handed over; asked once for each rank and step."""

    graph: Graph
    links: Links

    def with_delays(self, calls: Int64) -> Bool:
        """These collectives of gradients, all of one step, and what delays them on their library's
        thread."""
        ops, lanes = self.graph.ops, self.graph.lanes
        theirs = among(len(lanes), ops.lane[calls]) & (lanes.kind == LaneKind.COMM_THREAD)
        found: Bool = self._fed & (ops.kind == OpKind.HOST) & theirs[ops.lane]
        found &= ops.step == ops.step[calls[0]]
        found[calls] = True
        return found

    def launches(self, goes: Bool) -> Int64:
        """The host's calls that hand over these ops and nothing else."""
        ops, count = self.graph.ops, len(self.graph)
        handing, across = self._handing, self._across
        rows = np.flatnonzero(among(count, handing.src[goes[handing.op]]))
        others = among(count, across.src[~goes[across.op]])
        calls = (ops.kind[rows] == OpKind.HOST) & (ops.phase[rows] == Phase.COMMUNICATION)
        found: Int64 = rows[calls & (ops.tensor[rows] == NONE) & ~others[rows]]
        return found

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
