"""DDP's wait for all buckets at the end of backward, which no range labels: the longest stretch in
which the thread did nothing, after the last bucket was sent."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from paceline.graph import NONE
from paceline.record.sidecar import Backward
from paceline.record.sidecar import Collective as Issued
from paceline.record.trace import Int64
from paceline.record.view import RankView


@dataclass(frozen=True)
class FinalWait:
    """The stretch, and the transfers it waited for (rows of `Events`)."""

    lane: int
    begin_ns: int
    end_ns: int
    transfers: tuple[int, ...]


def final_waits(view: RankView, issued: Sequence[tuple[int, Issued]]) -> Iterator[FinalWait]:
    """One for each backward pass that reduced gradients; `issued` are (event, record) pairs."""
    for call in view.sidecar.of(Backward) if view.sidecar else ():
        sent = [(event, record) for event, record in issued if _sent_in(record, call)]
        lane = view.thread_lane(call.thread)
        if not call.synced or not sent or lane == NONE:
            continue
        last = max(record.enqueue_end_ns or record.enqueue_ns for _, record in sent)
        begin, end = _longest_quiet(beats(view, lane), last, call.end_ns)
        yield FinalWait(lane, begin, end, tuple(event for event, _ in sent))


def beats(view: RankView, lane: int) -> Int64:
    """Every moment at which a range starts or ends on a host lane."""
    events = view.trace.events
    rows = view.is_host & (events.lane == lane)
    return np.unique(np.concatenate([events.start_ns[rows], events.end_ns[rows]]))


def _sent_in(record: Issued, call: Backward) -> bool:
    return record.bucket >= 0 and call.begin_ns <= record.enqueue_ns <= call.end_ns


def _longest_quiet(moments: Int64, since: int, until: int) -> tuple[int, int]:
    """The longest time between two beats, or from the last beat to `until`."""
    inside: Any = moments[(moments > since) & (moments < until)]
    edges = np.concatenate([[since], inside, [until]])
    at = int(np.argmax(np.diff(edges)))
    return int(edges[at]), int(edges[at + 1])
