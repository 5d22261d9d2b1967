"""Which operator each op belongs to: a kernel to the one whose call launched it.

Host threads are kept as pieces of self time, so the piece before a launch on its thread is the
operator that launched. Wrong where a launch comes first on its thread, or where an operator's own
time before it was under a microsecond and joined the piece of the operator around it.
"""

import numpy as np

from paceline.graph import NONE, DepKind, LaneKind
from paceline.graph.graph import Bool, Graph, Int32
from paceline.graph.links import Links


def operators_of(graph: Graph) -> Int32:
    """For each op its operator's name, an index into the graph's names; on a thread its own."""
    ops = graph.ops
    found = ops.name.copy()
    links = Links.of(graph)
    streams = graph.lanes.kind[ops.lane] == LaneKind.STREAM
    launches = (links.kind == DepKind.LAUNCH) & streams[links.op] & ~streams[links.src]
    caller = _operator_at(graph, _calls(graph, links.src[launches]))
    known = caller[links.src[launches]] != NONE
    op, src = links.op[launches][known], links.src[launches][known]
    found[op] = ops.name[caller[src]]
    return found


def _calls(graph: Graph, launching: "np.ndarray[tuple[int], np.dtype[np.int64]]") -> Bool:
    """Pieces that are calls of the driver: those that launch, and others of the same name."""
    name = graph.ops.name
    calls: Bool = np.isin(name, np.unique(name[launching]))
    return calls


def _operator_at(graph: Graph, calls: Bool) -> "np.ndarray[tuple[int], np.dtype[np.int64]]":
    """For each op the last one on its lane up to it that is no call; NONE before the first."""
    lane = graph.ops.lane
    order = np.argsort(lane, kind="stable")
    at = np.where(calls[order], -1, np.arange(len(order)))
    last = np.maximum.accumulate(at) if len(at) else at
    found = np.where(last >= 0, order[np.maximum(last, 0)], NONE)
    found = np.where((found != NONE) & (lane[found] == lane[order]), found, NONE)
    result = np.full(len(graph), NONE, np.int64)
    result[order] = found
    return result
