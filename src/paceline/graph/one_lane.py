"""`on_one_lane`: a rank's collectives on one lane, in the order in which they were issued.

Gloo runs collectives on two threads, which share the rank's link: two that overlap in a recording
each take longer there. Priced one by one they must follow one another. Delays that were recorded
on those threads go: a price has the library's own time in it. A lane that serves by priority stays
as it is.
"""

from dataclasses import replace

import numpy as np

from paceline.graph.copying import copied
from paceline.graph.graph import Graph, Int64
from paceline.graph.kinds import DepKind, Discipline, LaneKind, OpKind
from paceline.graph.links import Links
from paceline.graph.rank_steps import firsts


def on_one_lane(graph: Graph) -> Graph:
    """The graph itself where no lane is a communication library's thread."""
    ops = graph.ops
    threads = graph.lanes.kind[ops.lane] == LaneKind.COMM_THREAD
    if not threads.any():
        return graph
    order = _order(graph)
    kept = order[~(threads & (ops.kind == OpKind.HOST))[order]]
    stays = np.array_equal(kept, np.arange(len(graph)))
    made = graph if stays else copied(graph, [kept]).graph
    moved = made.ops.kind == OpKind.COLLECTIVE
    moved &= graph.lanes.kind[made.ops.lane] == LaneKind.COMM_THREAD
    moved &= graph.lanes.discipline[made.ops.lane] == Discipline.RECORDED
    lane = np.where(moved, _first_lane(graph)[made.ops.rank], made.ops.lane).astype(np.int32)
    return replace(made, ops=replace(made.ops, lane=lane))


def _order(graph: Graph) -> Int64:
    """All ops; each rank's collectives change places until they stand as they were issued."""
    ops, links = graph.ops, Links.of(graph)
    issued = np.arange(len(graph))
    launches = (links.kind == DepKind.LAUNCH) & (ops.kind[links.op] == OpKind.COLLECTIVE)
    issued[links.op[launches]] = links.src[launches]
    issued = issued[issued]  # of a collective that another one hands over: as that one
    rows = np.flatnonzero(
        (ops.kind == OpKind.COLLECTIVE) & (graph.lanes.kind[ops.lane] == LaneKind.COMM_THREAD)
    )
    order = np.arange(len(graph))
    places = rows[np.lexsort((rows, ops.rank[rows]))]
    order[places] = rows[np.lexsort((rows, issued[rows], ops.step[rows], ops.rank[rows]))]
    return order


def _first_lane(graph: Graph) -> Int64:
    """By rank: its first lane of communication."""
    lanes = np.flatnonzero(graph.lanes.kind == LaneKind.COMM_THREAD)
    return firsts(graph.lanes.rank[lanes].astype(np.int64), lanes, max(graph.ranks) + 1)
