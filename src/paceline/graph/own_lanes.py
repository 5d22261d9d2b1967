"""`own_lanes`: one more lane for each rank, for ops that are to stand beside what it has."""

import numpy as np

from paceline.graph.graph import Graph, Int64, Lanes
from paceline.graph.kinds import Discipline


def own_lanes(graph: Graph, like: Int64, name: str, discipline: Discipline) -> tuple[Lanes, Int64]:
    """The graph's lanes with those for the ranks of these ops, each like the lane of its first of
    them; and the new lane of each op."""
    lanes, ops = graph.lanes, graph.ops
    ranks, at, row = np.unique(ops.rank[like], return_index=True, return_inverse=True)
    old = ops.lane[like[at]]
    made = Lanes(
        np.concatenate([lanes.rank, lanes.rank[old]]),
        np.concatenate([lanes.device, lanes.device[old]]),
        np.concatenate([lanes.kind, lanes.kind[old]]),
        np.concatenate([lanes.discipline, np.full(len(ranks), discipline, np.uint8)]),
        (*lanes.name, *[name] * len(ranks)),
    )
    return made, len(lanes) + row
