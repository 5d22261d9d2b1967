"""`prioritised`: exchanges of gradients on a lane of their own, where those needed first go first.

All ranks must issue collectives in one order. The first rank of a group chooses it: whenever its
lane is free it takes the ready exchange whose weights are used first, and announces it in a few
bytes; the others take what was announced. One exchange is under way at a time.
"""

from dataclasses import replace

import numpy as np

from paceline.graph.gradients import carried_by, carrying, no_exchange, not_told
from paceline.graph.graph import Graph, Int64
from paceline.graph.kinds import (
    NONE,
    UNPRICED,
    Collective,
    DepKind,
    Discipline,
    DType,
    OpKind,
)
from paceline.graph.links import Links
from paceline.graph.own_lanes import own_lanes
from paceline.graph.splice import Added, spliced

ANNOUNCED_BYTES = 16
LANE = "exchange by priority"


def prioritised(graph: Graph) -> Graph:
    """The graph with its exchanges of gradients in the order of the next use of their weights,
    which is taken to be the order in which the model defines them."""
    links = Links.of(graph)
    calls = carrying(graph, links)
    if not len(calls):
        raise no_exchange(
            graph,
            "the recording does not say which collectives carry gradients, so none can go first. "
            "Record a job under DDP with `paceline record`.",
        )
    leads = np.array([group.ranks[0] for group in graph.groups])[graph.ops.group[calls]]
    first = graph.ops.rank[calls] == leads
    leading = calls[first]
    announce = len(graph) + np.arange(len(leading))
    joined = _announced(graph, links, calls, leading, announce)
    columns = {
        "kind": np.full(len(leading), OpKind.TRANSFER),
        "collective": np.full(len(leading), Collective.BROADCAST),
        "dtype": np.full(len(leading), DType.INT64),
        "size_bytes": np.full(len(leading), ANNOUNCED_BYTES),
        "dur_ns": np.full(len(leading), UNPRICED),
        "instance": np.full(len(leading), NONE),
        "priority": 1 + _first_use(graph, links, leading),
    }
    added = Added(leading, _behind(graph, links, leading), columns)
    return spliced(_on_own_lane(graph, calls), np.zeros(len(graph), np.bool_), added, joined)


def _announced(graph: Graph, links: Links, calls: Int64, leading: Int64, announce: Int64) -> Links:
    """An announcement waits for what its exchange waits for on that rank; all members wait for
    it."""
    place = np.full(len(graph), NONE, np.int64)
    place[leading] = announce
    into = links.where(place[links.op] != NONE)
    waits = Links(place[into.op], into.src, into.kind, into.inferred)
    of_instance = np.full(int(graph.ops.instance.max()) + 1, NONE, np.int64)
    of_instance[graph.ops.instance[leading]] = announce
    told = of_instance[graph.ops.instance[calls]]
    return links.joined(waits).joined(Links.all_of(calls, told, DepKind.MESSAGE))


def _first_use(graph: Graph, links: Links, calls: Int64) -> Int64:
    """By exchange: which of the job's parameters is the first that it carries."""
    call, carried = carried_by(graph, links)
    found = np.full(len(graph), len(graph.facts.parameters), np.int64)
    np.minimum.at(found, call, carried)
    if (found[calls] == len(graph.facts.parameters)).any():
        raise not_told()
    return found[calls]


def _behind(graph: Graph, links: Links, calls: Int64) -> Int64:
    """The last op of its own rank that each exchange waits for, or itself."""
    found = np.full(len(graph), NONE, np.int64)
    mine = graph.ops.rank[links.op] == graph.ops.rank[links.src]
    np.maximum.at(found, links.op[mine], links.src[mine])
    return np.where(found[calls] == NONE, calls, found[calls])


def _on_own_lane(graph: Graph, calls: Int64) -> Graph:
    """A new lane for the exchanges of each rank, like the one that its first is on."""
    ops = graph.ops
    lanes, own = own_lanes(graph, calls, LANE, Discipline.PRIORITY)
    lane, priority = ops.lane.copy(), ops.priority.copy()
    lane[calls] = own
    priority[calls] = 0  # what is announced comes before what is not
    return replace(graph, lanes=lanes, ops=replace(ops, lane=lane, priority=priority))
