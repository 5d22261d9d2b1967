"""Which operator each op belongs to: a kernel, and the driver's calls, to the one that made them.

Host threads are kept as pieces of self time, so the piece before a call on its thread is that of
the operator that called. Wrong where a call comes first on its thread, or where an operator's own
time before it was under a microsecond and joined the piece of the operator around it. A kernel
without a launch in its trace keeps its own name.
"""

import numpy as np
from numpy.typing import NDArray

from paceline.graph import NONE, DepKind, LaneKind
from paceline.graph.graph import Bool, Graph, Int32, Int64
from paceline.graph.links import Links

CALLS = "driver_calls"
"""In a graph's `meta`: names of the calls into the device's driver, as its traces tell them."""


def operators_of(graph: Graph) -> Int32:
    """For each op its operator's name, an index into the graph's names; on a thread its own."""
    ops = graph.ops
    found = ops.name.copy()
    links = Links.of(graph)
    streams = graph.lanes.kind[ops.lane] == LaneKind.STREAM
    launches = links.where((links.kind == DepKind.LAUNCH) & streams[links.op] & ~streams[links.src])
    calls = _calls(graph, launches) & ~streams
    operator = _operator_at(graph, calls)
    mine = calls & (operator != NONE)
    found[mine] = ops.name[operator[mine]]
    known = launches.where(operator[launches.src] != NONE)
    found[known.op] = ops.name[operator[known.src]]
    return found


def _calls(graph: Graph, launches: Links) -> Bool:
    """Ops named as calls into the driver are; by what launches, where the graph tells no names."""
    names = set(graph.meta.get(CALLS, ())) or {
        graph.text(int(name)) for name in np.unique(graph.ops.name[launches.src])
    }
    known: Bool = np.array([*(name in names for name in graph.names), False])
    return known[graph.ops.name]


def _operator_at(graph: Graph, calls: Bool) -> NDArray[np.int64]:
    """For each op the last one on its lane up to it that is no call; NONE before the first."""
    lane = graph.ops.lane
    order = np.argsort(lane, kind="stable")
    at = np.where(calls[order], -1, np.arange(len(order)))
    last = np.maximum.accumulate(at) if len(at) else at
    found = np.where(last >= 0, order[np.maximum(last, 0)], NONE)
    found = np.where((found != NONE) & (lane[found] == lane[order]), found, NONE)
    result: Int64 = np.full(len(graph), NONE, np.int64)
    result[order] = found
    return result
