"""`copy_back`: what a rank does between its wait for reduced gradients and the update.

DDP waits for each bucket in turn and copies it back into the gradients. A bucket that is there by
then shows no wait: so this begins behind the last gradient and the last hand-over. Another bucket
size shares that time out anew; another batch leaves it as it is.
"""

from dataclasses import dataclass

import numpy as np

from paceline.graph.graph import Graph, Int64
from paceline.graph.kinds import COMMUNICATION, NONE, WORK, DepKind, LaneKind, OpKind, Phase
from paceline.graph.links import Links
from paceline.graph.membership import among, of_kinds

_TALKS = of_kinds(COMMUNICATION)
_PLAIN = of_kinds((*WORK, OpKind.WAIT))


@dataclass(frozen=True, eq=False)
class CopyBack:
    """Of one rank's step."""

    first: int  # the op that begins it; NONE where nothing waits
    update: int  # the first op of the update behind it, or NONE
    work: Int64  # waits and work from the first up to the update

    def removable(self, graph: Graph, links: Links, reduced: Int64) -> Int64:
        """The work that waits for no other lane, and that none waits for."""
        lane = graph.ops.lane
        across = lane[links.src] != lane[links.op]
        count = len(graph)
        led = among(count, links.op[across & ~among(count, reduced)[links.src]])
        leads = among(count, links.src[across])
        found: Int64 = self.work[~led[self.work] & ~leads[self.work]]
        return found


def copy_back(graph: Graph, links: Links, reduced: Int64) -> CopyBack:
    """`reduced` is the communication that brings one rank its gradients in one step."""
    ops = graph.ops
    brings = among(len(graph), reduced)
    waiting = brings[links.src] & ~_TALKS[ops.kind[links.op]]
    waiting &= graph.lanes.kind[ops.lane[links.op]] != LaneKind.COMM_THREAD
    waits = links.op[waiting]
    if not len(waits):
        return CopyBack(NONE, NONE, waits)
    lane = np.bincount(ops.lane[waits]).argmax()
    rows = np.flatnonzero((ops.lane == lane) & (ops.step == ops.step[reduced[0]]))
    rows = rows[rows >= _begin(graph, links, rows, reduced, waits[ops.lane[waits] == lane])]
    if not len(rows):
        return CopyBack(NONE, NONE, rows)
    updates = rows[ops.phase[rows] == Phase.UPDATE]
    first, update = int(rows[0]), int(updates[0]) if len(updates) else NONE
    rows = rows[rows < update] if len(updates) else rows
    return CopyBack(first, update, rows[_PLAIN[ops.kind[rows]]])


def _begin(graph: Graph, links: Links, rows: Int64, reduced: Int64, waits: Int64) -> int:
    """Behind the lane's last gradient and hand-over. A stream shows every wait, and a lane without
    gradients nothing else: there at the first wait."""
    launching = (links.kind == DepKind.LAUNCH) & among(len(graph), reduced)[links.op]
    hands_over = among(len(graph), links.src[launching])
    ends = rows[(graph.ops.tensor[rows] != NONE) | hands_over[rows]]
    behind, first = int(ends.max(initial=NONE)) + 1, int(waits.min())
    shows = graph.lanes.kind[graph.ops.lane[first]] == LaneKind.STREAM
    return max(first, behind) if shows or not len(ends) else behind
