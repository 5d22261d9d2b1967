"""`own_lanes`: one more lane for each rank, for ops that are to stand beside what it has."""

import numpy as np

from paceline.graph.graph import Graph, Int32, Int64, Lanes
from paceline.graph.kinds import Discipline


def own_lanes(graph: Graph, like: Int64, name: str, discipline: Discipline) -> tuple[Lanes, Int64]:
    """The graph's lanes with those for the ranks of these ops, each like the lane of its first of
    them; and the new lane of each op."""
    lanes, ops = graph.lanes, graph.ops
    _, at, row = np.unique(ops.rank[like], return_index=True, return_inverse=True)
    return more_lanes(lanes, ops.lane[like[at]], name, discipline), len(lanes) + row


def more_lanes(lanes: Lanes, like: Int64 | Int32, name: str, discipline: Discipline) -> Lanes:
    """With one more lane behind the others like each of these."""
    return Lanes(
        np.concatenate([lanes.rank, lanes.rank[like]]),
        np.concatenate([lanes.device, lanes.device[like]]),
        np.concatenate([lanes.kind, lanes.kind[like]]),
        np.concatenate([lanes.discipline, np.full(len(like), discipline, np.uint8)]),
        (*lanes.name, *[name] * len(like)),
    )
