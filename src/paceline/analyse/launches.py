"""Launches: kernels shorter than their launch, kernels that started late, and the queue over time.

A queue holds what the host has launched and the stream has not begun. An empty queue means that
the device waits for the host; a long one, that the host is far ahead.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from paceline.graph import DepKind, LaneKind
from paceline.graph.graph import Int64
from paceline.graph.links import Links
from paceline.replay import Timeline

POINTS: Final = 60  # of a queue's curve
LATE_NS: Final = 100_000  # HTA's own border for a launch delay that stands out


@dataclass(frozen=True)
class Launches:
    """Of one rank; times in ns."""

    rank: int
    count: int
    short: int  # kernels that took less than the call that launched them
    short_ns: int  # what those calls took
    late: int  # that began more than `LATE_NS` after their call had ended
    delay_median_ns: float
    queue_mean: float  # over time
    queue_most: int
    empty_share: float  # of the time, nothing launched and nothing running
    at_ns: tuple[int, ...]  # the curve's points
    queue: tuple[int, ...]


def launches_of(timeline: Timeline) -> tuple[Launches, ...]:
    """One row a rank with a device."""
    graph, links = timeline.graph, Links.of(timeline.graph)
    streams = graph.lanes.kind[graph.ops.lane] == LaneKind.STREAM
    chosen = (links.kind == DepKind.LAUNCH) & streams[links.op] & ~streams[links.src]
    work, call = links.op[chosen], links.src[chosen]
    ranks = graph.ops.rank[work]
    return tuple(
        _of_rank(timeline, int(rank), work[ranks == rank], call[ranks == rank])
        for rank in np.unique(ranks)
    )


def _of_rank(timeline: Timeline, rank: int, work: Int64, call: Int64) -> Launches:
    called, begun, ended = timeline.end_ns[call], timeline.ready_ns[work], timeline.end_ns[work]
    took, own = timeline.end_ns[call] - timeline.start_ns[call], ended - timeline.start_ns[work]
    delay = np.maximum(begun - called, 0)
    short = own < took
    at, queue, running = _queue(called, begun, ended)
    held = np.diff(at)
    span = max(int(held.sum()), 1)
    points = np.linspace(at[0], at[-1], POINTS).astype(np.int64)
    curve = queue[np.searchsorted(at, points, "right") - 1]
    return Launches(
        rank,
        len(work),
        int(short.sum()),
        int(took[short].sum()),
        int((delay > LATE_NS).sum()),
        float(np.median(delay)),
        float((queue[:-1] * held).sum() / span),
        int(queue.max()),
        float(held[(queue[:-1] == 0) & (running[:-1] == 0)].sum() / span),
        tuple(points.tolist()),
        tuple(curve.tolist()),
    )


def _queue(
    called: Int64, begun: Int64, ended: Int64
) -> tuple[Int64, NDArray[np.int64], NDArray[np.int64]]:
    """Moments at which something changes, and how much is queued and running from then on."""
    moments = np.concatenate([called, begun, ended])
    ones = np.ones(len(called), np.int64)
    queued = np.concatenate([ones, -ones, 0 * ones])
    running = np.concatenate([0 * ones, ones, -ones])
    order = np.argsort(moments, kind="stable")
    at, last = np.unique(moments[order], return_index=True)
    last = np.append(last[1:], len(order)) - 1
    return at, np.cumsum(queued[order])[last], np.cumsum(running[order])[last]
