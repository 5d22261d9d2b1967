"""Where a rank's step is cut: behind an op that readies a gradient or hands communication over.

Between two cuts of a lane lies a stretch of work. Cuts and communication are what steps are
compared by; the small ops in between may differ from step to step.
"""

from dataclasses import dataclass

import numpy as np

from paceline.graph.graph import Bool, Graph, Int64
from paceline.graph.kinds import COMMUNICATION, NONE, DepKind, LaneKind
from paceline.graph.links import Links


@dataclass(frozen=True, eq=False)
class Cuts:
    """One row an op."""

    cut: Bool
    stretch: Int64  # cuts on its lane before it, in its step; NONE on lanes of communication
    turn: Int64  # of communication: which of its rank's in its step, in order of issue; else NONE


def cuts_of(graph: Graph) -> Cuts:
    ops = graph.ops
    talks = np.isin(ops.kind, COMMUNICATION)
    works = graph.lanes.kind[ops.lane] != LaneKind.COMM_THREAD
    links = Links.of(graph)
    launches = (links.kind == DepKind.LAUNCH) & talks[links.op]
    cut = (ops.tensor != NONE) & ~talks
    cut[links.src[launches]] = True
    cut &= works
    issued = np.arange(len(graph))
    issued[links.op[launches]] = links.src[launches]
    return Cuts(cut, np.where(works, _before(graph, cut), NONE), _turns(graph, talks, issued))


def _before(graph: Graph, cut: Bool) -> Int64:
    """How many cuts lie before each op on its lane in its step."""
    order = np.lexsort((np.arange(len(graph)), graph.ops.step, graph.ops.lane))
    passed: Int64 = np.cumsum(cut[order]) - cut[order]
    first = _first(graph.ops.lane[order], graph.ops.step[order])
    found = np.empty(len(graph), np.int64)
    found[order] = passed - passed[first]
    return found


def _turns(graph: Graph, talks: Bool, issued: Int64) -> Int64:
    rows = np.flatnonzero(talks)
    order = rows[np.lexsort((rows, issued[rows], graph.ops.step[rows], graph.ops.rank[rows]))]
    first = _first(graph.ops.rank[order], graph.ops.step[order])
    found = np.full(len(graph), NONE, np.int64)
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
