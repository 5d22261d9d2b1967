"""A rank's device as a whole: computing, communicating, both, or nothing on any of its streams.

A collective counts from its arrival, so that its waiting for members is communication, as HTA and
TraceLens count it. Without a device the threads that compute and communicate stand for it.
"""

from dataclasses import dataclass

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
    compute_ns: int  # computes or copies, nothing communicates
    communication_ns: int
    both_ns: int
    idle_ns: int

    @property
    def overlap(self) -> float:
        """Share of communication that computing hides."""
        moved = self.communication_ns + self.both_ns
        return self.both_ns / moved if moved else 0.0


def device_times(timeline: Timeline) -> tuple[DeviceTime, ...]:
    """One row a rank that works."""
    ops, lanes = timeline.graph.ops, timeline.graph.lanes
    mine = np.isin(ops.lane, working_lanes(timeline.graph))
    mine |= np.isin(lanes.kind[ops.lane], (LaneKind.COMM_THREAD, LaneKind.COPY_ENGINE))
    talks = mine & np.isin(ops.kind, COMMUNICATION)
    works = mine & np.isin(ops.kind, (OpKind.COMPUTE, OpKind.COPY, OpKind.DATA))
    found = [
        _of_rank(timeline, rank, works & (ops.rank == rank), talks & (ops.rank == rank))
        for rank in timeline.graph.ranks
    ]
    return tuple(row for row in found if row.span_ns)


def _of_rank(
    timeline: Timeline, rank: int, works: NDArray[np.bool_], talks: NDArray[np.bool_]
) -> DeviceTime:
    rows = np.concatenate([np.flatnonzero(works), np.flatnonzero(talks)])
    begin, end = timeline.ready_ns[rows], timeline.end_ns[rows]
    computes = np.arange(len(rows)) < works.sum()
    begin = np.where(computes, timeline.start_ns[rows], begin)
    at = np.concatenate([begin, end])
    order = np.argsort(at, kind="stable")
    lasts = np.diff(at[order])
    busy, moves = (_open(len(rows), chosen, order) for chosen in (computes, ~computes))
    return DeviceTime(
        rank,
        int(lasts.sum()),
        int(lasts[busy & ~moves].sum()),
        int(lasts[moves & ~busy].sum()),
        int(lasts[busy & moves].sum()),
        int(lasts[~busy & ~moves].sum()),
    )


def _open(count: int, chosen: NDArray[np.bool_], order: Int64) -> NDArray[np.bool_]:
    """Between each two moments, whether any of the chosen runs."""
    change = np.where(np.tile(chosen, 2), np.repeat([1, -1], count), 0)
    running: NDArray[np.bool_] = (np.cumsum(change[order]) > 0)[:-1]
    return running
