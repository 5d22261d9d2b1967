"""A rank's device as a whole: computing, communicating, both, or nothing on any of its streams.

A collective counts from its arrival, so that its waiting for members is communication, as HTA and
TraceLens count it. Without a device the threads that compute and communicate stand for it.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from paceline.analyse.lanes import working_lanes
from paceline.graph import COMMUNICATION, LaneKind, OpKind
from paceline.graph.graph import Int64
from paceline.replay import Timeline


@dataclass(frozen=True)
class DeviceTime:
    """In ns; the parts sum to the span."""

    rank: int
    span_ns: int  # from the first work to the end of the last
    compute_ns: int  # nothing communicates
    communication_ns: int  # nothing computes
    both_ns: int
    copy_ns: int  # nothing computes or communicates
    idle_ns: int

    @property
    def overlap(self) -> float:
        """Share of communication that computing hides."""
        moved = self.communication_ns + self.both_ns
        return self.both_ns / moved if moved else 0.0


def device_of(timeline: Timeline) -> tuple[DeviceTime, ...]:
    """One row a rank that works."""
    ops, lanes = timeline.graph.ops, timeline.graph.lanes
    mine = np.isin(ops.lane, working_lanes(timeline.graph))
    mine |= np.isin(lanes.kind[ops.lane], (LaneKind.COMM_THREAD, LaneKind.COPY_ENGINE))
    kinds = ((OpKind.COMPUTE, OpKind.DATA), COMMUNICATION, (OpKind.COPY,))
    state = np.full(len(ops), _NOTHING)
    for number, some in enumerate(kinds):
        state[mine & np.isin(ops.kind, some)] = number
    rows = (_of_rank(timeline, rank, state) for rank in timeline.graph.ranks)
    return tuple(row for row in rows if row.span_ns)


_NOTHING: Final = -1


def _of_rank(timeline: Timeline, rank: int, state: NDArray[np.int64]) -> DeviceTime:
    rows = np.flatnonzero((timeline.graph.ops.rank == rank) & (state != _NOTHING))
    arrived = np.where(state[rows] == 1, timeline.ready_ns[rows], timeline.start_ns[rows])
    at = np.concatenate([arrived, timeline.end_ns[rows]])
    order = np.argsort(at, kind="stable")
    lasts = np.diff(at[order])
    works, moves, copies = (_open(state[rows] == number, order) for number in range(3))
    parts = (works & ~moves, moves & ~works, works & moves, copies & ~works & ~moves)
    compute, communication, both, copy = (int(lasts[part].sum()) for part in parts)
    span = int(lasts.sum())
    idle = span - compute - communication - both - copy
    return DeviceTime(rank, span, compute, communication, both, copy, idle)


def _open(chosen: NDArray[np.bool_], order: Int64) -> NDArray[np.bool_]:
    """Between each two moments, whether any of the chosen runs."""
    change = np.where(np.tile(chosen, 2), np.repeat([1, -1], len(chosen)), 0)
    running: NDArray[np.bool_] = (np.cumsum(change[order]) > 0)[:-1]
    return running
