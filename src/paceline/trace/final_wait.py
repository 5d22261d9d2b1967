"""DDP's waits for its buckets at the end of backward, which no range labels.

DDP waits for one bucket after the other and copies each away. Of the stretches in which the
thread did nothing, the wait for a transfer is the one that lies longest within it. The last
transfer always has one; the others where they were late enough to be waited for.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from paceline.graph import NONE
from paceline.record.sidecar import Backward
from paceline.record.sidecar import Collective as Issued
from paceline.trace.trace import Int64
from paceline.trace.view import RankView

LEAST_WAIT_NS: Final = 50_000
"""A shorter pause between two copies is the reducer's own."""


@dataclass(frozen=True)
class FinalWait:
    """The stretch, and the transfers it waited for (rows of `Events`)."""

    lane: int
    begin_ns: int
    end_ns: int
    transfers: tuple[int, ...]


def final_waits(view: RankView, issued: Sequence[tuple[int, Issued]]) -> Iterator[FinalWait]:
    """Of each backward pass that reduced gradients, in order of time; `issued` are (event, record)
    pairs."""
    moments: dict[int, Int64] = {}  # of each lane, found once
    for call in view.sidecar.of(Backward) if view.sidecar else ():
        sent = [(event, record) for event, record in issued if _sent_in(record, call)]
        lane = view.thread_lane(call.thread)
        if not call.synced or not sent or lane == NONE:
            continue
        since = max(_issued_by(view, lane, record) for _, record in sent)
        sent = sorted(sent, key=lambda pair: pair[1].order)
        if lane not in moments:
            moments[lane] = beats(view, lane)
        rows, within = tuple(event for event, _ in sent), (since, call.end_ns)
        for begin, end, transfers in _waits(view, moments[lane], rows, within):
            yield FinalWait(lane, begin, end, transfers)


def _waits(
    view: RankView, moments: Int64, rows: tuple[int, ...], within: tuple[int, int]
) -> Iterator[tuple[int, int, tuple[int, ...]]]:
    """For transfers in the order in which they are waited for; `moments` are the lane's beats."""
    last, (since, until) = max(rows, key=_end_in(view)), within
    for row in rows[: rows.index(last)]:
        begin, end = _quiet_during(view, moments, row, since, until)
        if min(end, _end_in(view)(row)) - begin >= LEAST_WAIT_NS:
            yield begin, end, (row,)
            since = end
    begin, end = _quiet_during(view, moments, last, since, until)
    yield begin, end, rows


def _issued_by(view: RankView, lane: int, record: Issued) -> int:
    """When the call that issued it returned: a thread that is put aside in it waits for nobody."""
    if record.enqueue_end_ns:
        return record.enqueue_end_ns
    events, at = view.trace.events, record.enqueue_ns
    around = view.is_host & (events.lane == lane) & (events.start_ns <= at) & (events.end_ns >= at)
    rows = np.flatnonzero(around)
    return int(events.end_ns[rows[np.argmax(events.start_ns[rows])]]) if len(rows) else at


def beats(view: RankView, lane: int) -> Int64:
    """Every moment at which a range starts or ends on a host lane."""
    events = view.trace.events
    rows = view.is_host & (events.lane == lane)
    return np.unique(np.concatenate([events.start_ns[rows], events.end_ns[rows]]))


def _sent_in(record: Issued, call: Backward) -> bool:
    return record.bucket >= 0 and call.begin_ns <= record.enqueue_ns <= call.end_ns


def _end_in(view: RankView) -> Callable[[int], int]:
    return lambda event: int(view.trace.events.end_ns[event])


def _quiet_during(
    view: RankView, moments: Int64, event: int, since: int, until: int
) -> tuple[int, int]:
    """The time between two beats of the lane that overlaps the transfer longest."""
    events = view.trace.events
    first, end = np.searchsorted(moments, since, "right"), np.searchsorted(moments, until)
    inside = moments[first:end]
    edges = np.concatenate([[since], inside, [max(since, until)]])
    begins = np.maximum(edges[:-1], events.start_ns[event])
    ends = np.minimum(edges[1:], events.end_ns[event])
    at = int(np.argmax(ends - begins))
    return int(edges[at]), int(edges[at + 1])
