"""The host waits for a device, a stream or an event: run-time dependencies and the time waited.

What is drained is found anew in each replay; only the time after the drain is the call's own.
"""

from typing import Final

import numpy as np

from paceline.graph import NONE, DepKind, LaneKind
from paceline.trace.findings import Findings, Idles, Links, StreamDrains, link_rows
from paceline.trace.rules.stream_wait import call_of, last_work
from paceline.trace.trace import SyncKind, columns
from paceline.trace.view import RankView

_DEVICE: Final = ("cudaDeviceSynchronize", "hipDeviceSynchronize", "cuCtxSynchronize")
_STREAM: Final = ("cudaStreamSynchronize", "hipStreamSynchronize", "cuStreamSynchronize")
_EVENT: Final = ("cudaEventSynchronize", "hipEventSynchronize", "cuEventSynchronize")


def find(view: RankView) -> Findings:
    """Drains by device and stream calls; plain links for event calls."""
    streams = [row for row, lane in enumerate(view.trace.lanes) if lane.kind is LaneKind.STREAM]
    drains: list[tuple[int, int, int]] = []
    idles: list[tuple[int, int, int, int]] = []
    links: list[tuple[int, int, int]] = []
    recorded = _recorded_streams(view)
    for prefixes, pick in ((_DEVICE, streams), (_STREAM, None)):
        for call in np.flatnonzero(view.names_with(*prefixes) & view.is_host).tolist():
            chosen = pick if pick is not None else _stream_of(view, call, streams, recorded)
            _drain(view, call, chosen, drains, idles)
    for call in np.flatnonzero(view.names_with(*_EVENT) & view.is_host).tolist():
        _event(view, call, idles, links)
    return Findings(_event_links(links), columns(Idles, idles), columns(StreamDrains, drains))


def _recorded_streams(view: RankView) -> dict[int, int]:
    """Driver call -> the stream that CUPTI says it synchronised."""
    syncs = view.trace.syncs
    rows = np.flatnonzero((syncs.kind == SyncKind.STREAM_SYNC) & (syncs.lane != NONE))
    calls = call_of(view, syncs.correlation[rows])
    return dict(zip(calls.tolist(), syncs.lane[rows].tolist()))


def _stream_of(
    view: RankView, call: int, streams: list[int], recorded: dict[int, int]
) -> list[int]:
    """The stream that was recorded, else the one whose work ended last within the call."""
    if call in recorded:
        return [recorded[call]]
    ends = {stream: _end_of(view, call, stream) for stream in streams}
    start, end = view.trace.events.start_ns[call], view.trace.events.end_ns[call]
    within = {stream: at for stream, at in ends.items() if start < at <= end}
    return [max(within, key=within.__getitem__)] if within else []


def _drain(
    view: RankView,
    call: int,
    streams: list[int],
    drains: list[tuple[int, int, int]],
    idles: list[tuple[int, int, int, int]],
) -> None:
    events = view.trace.events
    lane, start, end = int(events.lane[call]), int(events.start_ns[call]), int(events.end_ns[call])
    ready = max([start, *(_end_of(view, call, stream) for stream in streams)])
    until = min(ready, end)
    if until > start:
        idles.append((lane, start, until, 1))
    drains += [(lane, until, stream) for stream in streams]


def _end_of(view: RankView, call: int, stream: int) -> int:
    """When the work ended that a stream had been given when the call began; 0 for none."""
    events = view.trace.events
    row = last_work(view, np.array([stream]), events.start_ns[[call]])[0]
    return int(events.end_ns[row]) if row != NONE else 0


def _event(
    view: RankView,
    call: int,
    idles: list[tuple[int, int, int, int]],
    links: list[tuple[int, int, int]],
) -> None:
    """The host waits for the work before an event: recorded by CUPTI, else nothing is concluded."""
    events, syncs = view.trace.events, view.trace.syncs
    rows = np.flatnonzero(
        (syncs.correlation == events.correlation[call])
        & (syncs.kind == SyncKind.EVENT_SYNC)
        & (syncs.source != NONE)
    )
    if not len(rows):
        return
    record = call_of(view, syncs.record[rows[:1]])
    if record[0] == NONE:
        return
    work = last_work(view, syncs.source[rows[:1]].astype(np.int64), events.start_ns[record])[0]
    if work == NONE:
        return
    lane, start, end = int(events.lane[call]), int(events.start_ns[call]), int(events.end_ns[call])
    until = min(max(start, int(events.end_ns[work])), end)
    if until > start:
        idles.append((lane, start, until, 1))
    links.append((int(work), lane, until))


def _event_links(rows: list[tuple[int, int, int]]) -> Links:
    work, lane, at = np.array(rows, np.int64).reshape(-1, 3).T
    return link_rows(len(rows), DepKind.WAIT, src_event=work, dst_lane=lane, dst_ns=at)
