"""Where a rank's step is cut: behind an op that readies a gradient or hands communication over.

Between two cuts of a lane lies a stretch of work. Cuts and communication are what steps are
compared by; the small ops in between may differ from step to step.
"""

from dataclasses import dataclass

import numpy as np

from paceline.graph.distinct import blocks_of_ranks
from paceline.graph.graph import Bool, Graph, Int32, Int64
from paceline.graph.kinds import NONE, DepKind, LaneKind
from paceline.graph.links import Links
from paceline.graph.membership import TALKS


@dataclass(frozen=True, eq=False)
class Cuts:
    """One row an op."""

    cut: Bool
    stretch: Int32  # cuts on its lane before it, in its step; NONE on lanes of communication
    turn: Int32  # of communication: which of its rank's in its step, in order of issue; else NONE


def cuts_of(graph: Graph) -> Cuts:
    ops = graph.ops
    talks = TALKS[ops.kind]
    works = graph.lanes.kind[ops.lane] != LaneKind.COMM_THREAD
    links = Links.of(graph)
    launches = (links.kind == DepKind.LAUNCH) & talks[links.op]
    cut = (ops.tensor != NONE) & ~talks
    cut[links.src[launches]] = True
    cut &= works
    stretch = _before(graph, cut)
    stretch[~works] = NONE
    return Cuts(cut, stretch, _turns(graph, talks, links.where(launches)))


def _before(graph: Graph, cut: Bool) -> Int32:
    """How many cuts lie before each op on its lane in its step: some ranks' lanes at a time."""
    ops, found = graph.ops, np.empty(len(graph), np.int32)
    for rows in blocks_of_ranks(ops.rank):
        lane, step = ops.lane[rows], ops.step[rows]
        order = np.lexsort((step, lane))
        lane, step, cuts = lane[order], step[order], cut[rows][order]
        passed: Int64 = np.cumsum(cuts) - cuts
        found[rows][order] = passed - passed[_first(lane, step)]
    return found


def _turns(graph: Graph, talks: Bool, launches: Links) -> Int32:
    rows = np.flatnonzero(talks)
    issued = rows.copy()
    issued[np.searchsorted(rows, launches.op)] = launches.src
    order = rows[np.lexsort((issued, graph.ops.step[rows], graph.ops.rank[rows]))]
    first = _first(graph.ops.rank[order], graph.ops.step[order])
    found = np.full(len(graph), NONE, np.int32)
    found[order] = np.arange(len(order)) - first
    return found


def _first(*columns: np.ndarray) -> Int64:
    """For each row of sorted columns, the first row that is equal to it."""
    new = np.ones(len(columns[0]), np.bool_)
    for column in columns:
        new[1:] &= column[1:] == column[:-1]
    new[1:] = ~new[1:]
    new[:1] = True
    return np.maximum.accumulate(np.where(new, np.arange(len(new)), 0))
