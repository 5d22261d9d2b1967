"""`copies_back`: what ranks do between their wait for reduced gradients and the update.

DDP waits for each bucket in turn and copies it back into the gradients. A bucket that is there by
then shows no wait: so this begins behind the last gradient and the last hand-over. Another bucket
size shares that time out anew; another batch leaves it as it is.
"""

from dataclasses import dataclass

import numpy as np

from paceline.graph.graph import Bool, Graph, Int64
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
        alone = np.where(among(len(graph), reduced), 0, NONE)
        return self.work[_removable(graph, links, alone, self.work, np.zeros_like(self.work))]


@dataclass(frozen=True, eq=False)
class CopiesBack:
    """Of several ranks' steps, which have numbers."""

    first: Int64  # one row a step, as in `CopyBack`
    update: Int64
    work: Int64  # of all of them, ascending
    whose: Int64  # the step of each


def copy_back(graph: Graph, links: Links, reduced: Int64) -> CopyBack:
    """`reduced` is the communication that brings one rank its gradients in one step."""
    alone = np.where(among(len(graph), reduced), 0, NONE)
    steps = graph.ops.step[reduced[:1]].astype(np.int64)
    found = copies_back(graph, links, alone, steps)
    return CopyBack(int(found.first.max(initial=NONE)), int(found.update.max(initial=NONE)),
                    found.work)  # fmt: skip


def copies_back(graph: Graph, links: Links, whose: Int64, steps: Int64) -> CopiesBack:
    """`whose` says by op the number of the rank's step to which it brings gradients, or NONE;
    `steps` the training step by number."""
    ops = graph.ops
    lane, first_wait = _waiting(graph, links, whose, len(steps))
    on = _on_lanes(graph, lane, steps)
    rows = np.flatnonzero(on != NONE)
    rows = rows[rows >= _begin(graph, links, whose, _Waits(lane, first_wait, on))[on[rows]]]
    first, update = np.full((2, len(steps)), NONE, np.int64)
    first[on[rows[::-1]]] = rows[::-1]
    updates = rows[ops.phase[rows] == Phase.UPDATE][::-1]
    update[on[updates]] = updates
    before = update[on[rows]]
    work = rows[((before == NONE) | (rows < before)) & _PLAIN[ops.kind[rows]]]
    return CopiesBack(first, update, work, on[work])


def removable(graph: Graph, links: Links, whose: Int64, back: CopiesBack) -> Bool:
    """Which of the work waits for no other lane but for its gradients, and none waits for."""
    return _removable(graph, links, whose, back.work, back.whose)


@dataclass(frozen=True, eq=False)
class _Waits:
    """By number of a rank's step: the lane that waits (or NONE) and its first wait; by op the
    number of the step in which it is on that lane."""

    lane: Int64
    first: Int64
    on: Int64


def _waiting(graph: Graph, links: Links, whose: Int64, count: int) -> tuple[Int64, Int64]:
    """The lane that waits most, the first of equals; and the first op on it that does."""
    ops, lanes = graph.ops, len(graph.lanes)
    waiting = (whose[links.src] != NONE) & ~_TALKS[ops.kind[links.op]]
    waiting &= graph.lanes.kind[ops.lane[links.op]] != LaneKind.COMM_THREAD
    op, mine = links.op[waiting], whose[links.src[waiting]]
    keys, at, times = np.unique(
        mine * lanes + ops.lane[op], return_inverse=True, return_counts=True
    )
    firsts = np.full(len(keys), len(graph), np.int64)
    np.minimum.at(firsts, at, op)
    seldom = np.lexsort((-keys, times))  # of each step, the lane that waits most last
    lane, first = np.full((2, count), NONE, np.int64)
    lane[keys[seldom] // lanes] = keys[seldom] % lanes
    first[keys[seldom] // lanes] = firsts[seldom]
    return lane, first


def _on_lanes(graph: Graph, lane: Int64, steps: Int64) -> Int64:
    """By op the number of the step in which it is on that step's lane; else NONE."""
    there = np.flatnonzero(lane != NONE)
    each, at = np.unique(steps[there], return_inverse=True)
    number = np.full((len(graph.lanes), len(each) + 1), NONE, np.int64)
    number[lane[there], at] = there
    column = np.searchsorted(each, graph.ops.step)
    column[np.append(each, np.iinfo(np.int64).max)[column] != graph.ops.step] = len(each)
    return number[graph.ops.lane, column]


def _begin(graph: Graph, links: Links, whose: Int64, waits: _Waits) -> Int64:
    """Behind the lane's last gradient and hand-over. A stream shows every wait, and a lane without
    gradients nothing else: there at the first wait."""
    on = waits.on
    launching = (links.kind == DepKind.LAUNCH) & (whose[links.op] != NONE)
    launching &= whose[links.op] == on[links.src]
    ends = graph.ops.tensor != NONE
    ends[links.src[launching]] = True
    rows = np.flatnonzero(ends & (on != NONE))
    behind = np.zeros(len(waits.lane), np.int64)
    behind[on[rows]] = rows + 1
    shows = graph.lanes.kind[graph.ops.lane[waits.first]] == LaneKind.STREAM
    return np.where(shows | (behind == 0), np.maximum(waits.first, behind), behind)


def _removable(graph: Graph, links: Links, whose: Int64, work: Int64, mine: Int64) -> Bool:
    lane, count = graph.ops.lane, len(graph)
    across = lane[links.src] != lane[links.op]
    owner = np.full(count, NONE, np.int64)
    owner[work] = mine
    led = among(count, links.op[across & (whose[links.src] != owner[links.op])])
    leads = among(count, links.src[across])
    found: Bool = ~led[work] & ~leads[work]
    return found
