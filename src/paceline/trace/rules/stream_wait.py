"""Event record on one stream -> wait for it on another (cudaEventRecord, cudaStreamWaitEvent).

CUPTI's synchronisation records name both ends. Older traces show only the calls; there the waiting
stream is that of the thread's next launch, and what it waits for is the thread's launch before, or,
where that went to the same stream, the last communication launched so far. A link that the recorded
times contradict is not made.
"""

import numpy as np
from numpy.typing import NDArray

from paceline.graph import NONE, DepKind
from paceline.trace.findings import Findings, Links, link_rows, stacked
from paceline.trace.trace import SyncKind
from paceline.trace.view import RankView

Rows = NDArray[np.int64]


def find(view: RankView) -> Findings:
    recorded = _recorded(view)
    return Findings(stacked([recorded, _inferred(view)]) if not len(recorded) else recorded)


def last_work(view: RankView, streams: Rows, moments: Rows) -> Rows:
    """The last event on each stream among those whose launch began by the moment; NONE if none."""
    events, order = view.trace.events, _by_stream(view)
    key = view.key(events.lane[order.work], order.launched)
    at = np.searchsorted(key, view.key(streams.astype(np.int32), moments), "right") - 1
    found = order.work[np.maximum(at, 0)] if len(order.work) else np.zeros(len(at), np.int64)
    fits = (at >= 0) & (streams != NONE)
    fits[fits] = events.lane[found[fits]] == streams[fits]
    return np.where(fits, found, NONE)


def first_work(view: RankView, streams: Rows, moments: Rows) -> Rows:
    """The first event on each stream among those whose launch began after the moment."""
    events, order = view.trace.events, _by_stream(view)
    key = view.key(events.lane[order.work], order.launched)
    at = np.searchsorted(key, view.key(streams.astype(np.int32), moments), "right")
    fits = (at < len(order.work)) & (streams != NONE)
    found = np.full(len(at), NONE, np.int64)
    found[fits] = order.work[at[fits]]
    fits[fits] = events.lane[found[fits]] == streams[fits]
    return np.where(fits, found, NONE)


class _Order:
    """Device work by (stream, launch)."""

    def __init__(self, work: Rows, launched: Rows) -> None:
        self.work, self.launched = work, launched


def _by_stream(view: RankView) -> _Order:
    events, calls = view.trace.events, view.calls
    launched = events.start_ns[calls.call]
    order = np.argsort(view.key(events.lane[calls.work], launched), kind="stable")
    return _Order(calls.work[order].astype(np.int64), launched[order])


def _recorded(view: RankView) -> Links:
    """Links from CUPTI's records: both streams and the recording call are known."""
    events, syncs = view.trace.events, view.trace.syncs
    rows = np.flatnonzero(
        (syncs.kind == SyncKind.STREAM_WAIT) & (syncs.source != NONE) & (syncs.lane != NONE)
    )
    wait, recorded = call_of(view, syncs.correlation[rows]), call_of(view, syncs.record[rows])
    known = (wait != NONE) & (recorded != NONE)
    rows, wait, recorded = rows[known], wait[known], recorded[known]
    src = last_work(view, syncs.source[rows].astype(np.int64), events.start_ns[recorded])
    dst = first_work(view, syncs.lane[rows].astype(np.int64), events.start_ns[wait])
    return _links(src, dst, inferred=False)


def call_of(view: RankView, correlations: Rows) -> Rows:
    """The driver call with each correlation id; NONE where the trace lacks it."""
    events = view.trace.events
    calls = np.flatnonzero(np.isin(events.lane, view.host_lanes) & (events.correlation >= 0))
    calls = calls[np.argsort(events.correlation[calls], kind="stable")]
    if not len(calls):
        return np.full(len(correlations), NONE, np.int64)
    at = np.minimum(np.searchsorted(events.correlation[calls], correlations), len(calls) - 1)
    return np.where(events.correlation[calls[at]] == correlations, calls[at], NONE)


def _inferred(view: RankView) -> Links:
    events, calls = view.trace.events, view.calls
    waits = np.flatnonzero(view.names_with("cudaStreamWaitEvent", "hipStreamWaitEvent"))
    if not len(waits) or not len(calls.work):
        return _links(np.zeros(0, np.int64), np.zeros(0, np.int64), inferred=True)
    key = view.key(events.lane[waits], events.start_ns[waits])
    after = np.searchsorted(calls.key, key, "right")
    known = (after > 0) & (after < len(calls.work))
    after, waits = after[known], waits[known]
    before = after - 1
    same = (events.lane[calls.call[after]] == events.lane[waits]) & (
        events.lane[calls.call[before]] == events.lane[waits]
    )
    src, dst = calls.work[before[same]].astype(np.int64), calls.work[after[same]].astype(np.int64)
    src = np.where(
        events.lane[src] == events.lane[dst],
        _last_communication(view, dst, events.start_ns[waits[same]]),
        src,
    )
    kept = (src != NONE) & (events.end_ns[src] <= events.start_ns[dst])
    return _links(src[kept], dst[kept], inferred=True)


def _last_communication(view: RankView, dst: Rows, moments: Rows) -> Rows:
    """The last collective launched by each moment, unless it lies on the waiting stream itself."""
    events, collectives = view.trace.events, view.trace.collectives
    call = np.full(len(events), NONE, np.int64)
    call[view.calls.work] = view.calls.call
    rows = collectives.event[collectives.event != NONE].astype(np.int64)
    rows = rows[call[rows] != NONE]
    if not len(rows):
        return np.full(len(dst), NONE, np.int64)
    launched = events.start_ns[call[rows]]
    order = np.argsort(launched, kind="stable")
    rows, launched = rows[order], launched[order]
    at = np.searchsorted(launched, moments) - 1
    found = rows[np.maximum(at, 0)]
    return np.where((at >= 0) & (events.lane[found] != events.lane[dst]), found, NONE)


def _links(src: Rows, dst: Rows, *, inferred: bool) -> Links:
    known = (src != NONE) & (dst != NONE) & (src != dst)
    return link_rows(
        int(known.sum()),
        DepKind.EVENT,
        inferred=inferred,
        src_event=src[known],
        dst_event=dst[known],
    )
