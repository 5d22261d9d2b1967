"""Host-side communication (gloo): enqueue -> transfer -> the host's wait for it.

The recorder tells the enqueue and the wait of each transfer. A plain trace shows neither: there the
enqueue is the `c10d::` op of the same order, and a stretch in which the thread does nothing until a
transfer ends is a wait for it. Those are inferred.
"""

from collections.abc import Iterator
from typing import Final

import numpy as np

from paceline.graph import NONE, DepKind
from paceline.record.sidecar import Collective as Issued
from paceline.record.sidecar import Wait
from paceline.trace.final_wait import beats, final_waits
from paceline.trace.findings import Findings, Idles, Links, link_rows, stacked
from paceline.trace.spelling import collective_of
from paceline.trace.trace import Category, Int64, columns
from paceline.trace.view import RankView

_ENQUEUE: Final = "c10d::"
_WAIT_TENSOR: Final = "_c10d_functional::wait_tensor"
Row = tuple[int, int, int]  # (transfer, lane, moment)
Awaited = tuple[int, int, int, int]  # (transfer, lane, begin, end)


def find(view: RankView) -> Findings:
    transfers = np.flatnonzero(view.trace.events.category == Category.COMMUNICATION)
    if not len(transfers):
        return Findings()
    issued = _issued(view)
    enqueued = list(
        _recorded_enqueues(view, issued) if issued else _inferred_enqueues(view, transfers)
    )
    seen = _recorded_waits(view, issued) if issued else _inferred_waits(view, transfers)
    waits = list(_until_arrival(view, seen))
    links = [_launches(enqueued, inferred=not issued), _arrivals(waits, inferred=not issued)]
    return Findings(stacked(links), _idles(waits))


def _issued(view: RankView) -> dict[int, tuple[int, Issued]]:
    """Issue order -> (row of its event, the record)."""
    collectives = view.trace.collectives
    records = {r.order: r for r in view.sidecar.of(Issued)} if view.sidecar else {}
    rows = zip(collectives.order.tolist(), collectives.event.tolist())
    return {o: (event, records[o]) for o, event in rows if o in records and event != NONE}


def _recorded_enqueues(view: RankView, issued: dict[int, tuple[int, Issued]]) -> Iterator[Row]:
    start = view.trace.events.start_ns
    for event, record in issued.values():
        lane = view.thread_lane(record.thread)
        if lane != NONE:
            done = record.enqueue_end_ns or record.enqueue_ns
            yield event, lane, max(record.enqueue_ns, min(done, int(start[event])))


def _recorded_waits(view: RankView, issued: dict[int, tuple[int, Issued]]) -> Iterator[Awaited]:
    """Each wait that the recorder saw."""
    end = view.trace.events.end_ns
    for wait in view.sidecar.of(Wait) if view.sidecar else ():
        lane = view.thread_lane(wait.thread)
        if wait.order in issued and lane != NONE:
            yield issued[wait.order][0], lane, wait.begin_ns, wait.end_ns
        elif wait.order == NONE and lane != NONE:
            for event, record in issued.values():
                if record.enqueue_ns < wait.begin_ns and wait.begin_ns < end[event] <= wait.end_ns:
                    yield event, lane, wait.begin_ns, wait.end_ns
    yield from _functional_waits(view, list(issued.values()))
    for final in final_waits(view, list(issued.values())):
        for event in final.transfers:
            yield event, final.lane, final.begin_ns, final.end_ns


def _functional_waits(view: RankView, issued: list[tuple[int, Issued]]) -> Iterator[Awaited]:
    """Functional collectives and their `wait_tensor`, both of C++: a wait is for the transfer
    that ends in it, or else for the last one issued that nobody has waited for."""
    events = view.trace.events
    calls = np.flatnonzero(view.names_with(_WAIT_TENSOR) & view.is_host)
    open_now = [(e, r) for e, r in issued if not r.enqueue_end_ns and r.bucket == NONE]
    for call in calls[np.argsort(events.start_ns[calls], kind="stable")].tolist():
        begin, stop = int(events.start_ns[call]), int(events.end_ns[call])
        known = [(e, r) for e, r in open_now if r.enqueue_ns < begin]
        if known:
            ending = [pair for pair in known if begin < events.end_ns[pair[0]] <= stop]
            chosen = (ending or known)[-1]
            open_now.remove(chosen)
            yield chosen[0], int(events.lane[call]), begin, stop


def _inferred_enqueues(view: RankView, transfers: Int64) -> Iterator[Row]:
    """The k-th `c10d::` op of a kind enqueued the k-th transfer of that kind."""
    events, names = view.trace.events, view.trace.names
    calls = np.flatnonzero(view.names_with(_ENQUEUE) & view.is_host)
    calls = calls[np.argsort(events.start_ns[calls], kind="stable")]
    queue: dict[int, list[int]] = {}
    for call in calls.tolist():
        kind = collective_of(names[events.name[call]].removeprefix(_ENQUEUE).rstrip("_"))
        queue.setdefault(kind, []).append(call)
    for row in transfers[np.argsort(events.start_ns[transfers], kind="stable")].tolist():
        kind = collective_of(names[events.name[row]].partition(":")[2])
        waiting = queue.get(kind, [])
        if waiting and events.start_ns[waiting[0]] <= events.start_ns[row]:
            call = waiting.pop(0)
            at = min(int(events.end_ns[call]), int(events.start_ns[row]))
            yield row, int(events.lane[call]), at


def _inferred_waits(view: RankView, transfers: Int64) -> Iterator[Awaited]:
    """The main thread was quiet until a transfer ended, and went on within a tenth of that time."""
    lane, end = view.main_lane, view.trace.events.end_ns
    moments = beats(view, lane)
    at = np.searchsorted(moments, end[transfers], "right")
    for row, after in zip(transfers.tolist(), at.tolist()):
        if 0 < after < len(moments):
            begin, resumed, done = int(moments[after - 1]), int(moments[after]), int(end[row])
            if resumed - done <= (done - begin) // 10:
                yield row, lane, begin, resumed


def _launches(rows: list[Row], *, inferred: bool) -> Links:
    event, lane, at = np.array(rows, np.int64).reshape(-1, 3).T
    return link_rows(
        len(rows), DepKind.LAUNCH, inferred=inferred, src_lane=lane, src_ns=at, dst_event=event
    )


def _arrivals(rows: list[Awaited], *, inferred: bool) -> Links:
    event, lane, _, at = np.array(rows, np.int64).reshape(-1, 4).T
    return link_rows(
        len(rows), DepKind.WAIT, inferred=inferred, src_event=event, dst_lane=lane, dst_ns=at
    )


def _until_arrival(view: RankView, rows: Iterator[Awaited]) -> Iterator[Awaited]:
    """Each wait only as long as its transfer lasted: the rest is the host's own time."""
    end = view.trace.events.end_ns
    for event, lane, begin, stop in rows:
        yield event, lane, begin, min(max(int(end[event]), begin), stop)


def _idles(rows: list[Awaited]) -> Idles:
    return columns(Idles, [(lane, begin, at, 1) for _, lane, begin, at in rows if at > begin])
