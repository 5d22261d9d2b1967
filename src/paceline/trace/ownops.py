"""Device work and transfers as ops of their own, each with the idle latency that came before it."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from paceline.graph import NONE, DepKind
from paceline.trace.findings import Links
from paceline.trace.trace import Int64
from paceline.trace.view import RankView


@dataclass(frozen=True, eq=False)
class OwnOps:
    """One row an event that is an op, in order of (lane, start)."""

    event: NDArray[np.intp]
    start_ns: Int64  # not before the one in front of it ended
    end_ns: Int64
    gap_ns: Int64  # from when all it waited for had ended to its start: launch latency
    caused_ns: Int64  # when the host asked for it; its own start where nothing tells

    def __len__(self) -> int:
        return len(self.event)


def own_ops(view: RankView, links: Links, origin_ns: int) -> OwnOps:
    """`origin_ns`: when the rank's recording begins, for work that waits for nothing recorded."""
    events, rows = view.trace.events, np.flatnonzero(view.is_own_op)
    start, end, lane = events.start_ns[rows], events.end_ns[rows], events.lane[rows]
    reached = _reached(lane, end)
    start = np.maximum(start, reached)
    ready, caused = np.maximum(_ready(view, links)[rows], reached), _caused(view, links)[rows]
    ready = np.where(ready == 0, min(origin_ns, int(start.min(initial=origin_ns))), ready)
    gap = np.maximum(start - ready, 0)
    return OwnOps(rows, start, np.maximum(end, start), gap, np.where(caused == NONE, start, caused))


def _reached(lane: NDArray[np.int32], end: Int64) -> Int64:
    """For each row the latest end before it on its lane; 0 for the first of a lane."""
    reached = np.zeros(len(lane), np.int64)
    for number in np.unique(lane):
        here = np.flatnonzero(lane == number)
        reached[here[1:]] = np.maximum.accumulate(end[here])[:-1]
    return reached


def _ready(view: RankView, links: Links) -> Int64:
    """For each event the latest moment at which something it waits for ended; 0 for nothing."""
    events = view.trace.events
    ready = np.zeros(len(events), np.int64)
    into = links.dst_event != NONE
    src = links.src_event[into]
    ended = np.where(src == NONE, links.src_ns[into], events.end_ns[np.maximum(src, 0)])
    np.maximum.at(ready, links.dst_event[into], ended)
    return ready


def _caused(view: RankView, links: Links) -> Int64:
    """For each event the host moment that asked for it; NONE for none."""
    caused = np.full(len(view.trace.events), NONE, np.int64)
    asked = (links.dst_event != NONE) & (links.kind == DepKind.LAUNCH)
    caused[links.dst_event[asked]] = links.src_ns[asked]
    return caused
