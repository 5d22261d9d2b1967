"""The lanes that do a rank's work: its device streams, or, without a device, its busiest thread."""

import numpy as np

from paceline.graph import Graph, LaneKind, OpKind


def working_lanes(graph: Graph) -> tuple[int, ...]:
    """In order of rank and lane. A stream on which nothing runs is none."""
    ops, lanes = graph.ops, graph.lanes
    used = np.bincount(ops.lane, minlength=len(lanes)) > 0
    found: list[int] = []
    for rank in graph.ranks:
        mine = lanes.rank == rank
        streams = np.flatnonzero(mine & (lanes.kind == LaneKind.STREAM) & used)
        found += streams.tolist() or _busiest_thread(graph, rank)
    return tuple(found)


def _busiest_thread(graph: Graph, rank: int) -> list[int]:
    ops = graph.ops
    computes = (ops.rank == rank) & (ops.kind == OpKind.COMPUTE)
    computes &= graph.lanes.kind[ops.lane] == LaneKind.THREAD
    if not computes.any():
        return []
    work = np.bincount(ops.lane[computes], ops.dur_ns[computes], len(graph.lanes))
    return [int(work.argmax())]
