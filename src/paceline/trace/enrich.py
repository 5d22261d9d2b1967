"""A trace and what the recorder wrote beside it -> a trace that says all of it itself.

Each issued collective is matched to the transfer that the trace shows (on gloo's threads, or the
NCCL kernel), or becomes an event of its own where only the recorder saw it (messages).
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np

from paceline.graph import NONE, Collective, LaneKind
from paceline.record.sidecar import Collective as Issued
from paceline.record.sidecar import RecordedGroup, RecordedHost, Sidecar, Wait
from paceline.trace.counts import count_notes
from paceline.trace.final_wait import final_waits
from paceline.trace.findings import stacked
from paceline.trace.layers import with_layers
from paceline.trace.memory import with_memory
from paceline.trace.spelling import collective_of, dtype_of
from paceline.trace.trace import (
    Category,
    Collectives,
    Events,
    Int64,
    Trace,
    TraceLane,
    columns,
    select,
)
from paceline.trace.view import RankView

EARLY_NS: Final = 5_000
"""A transfer may seem to begin this much before its enqueue was stamped: the stamp is taken in
Python, the trace's in C++."""


def enrich(trace: Trace, sidecar: Sidecar, detail: Trace | None = None) -> Trace:
    """The trace with groups, collectives and messages as the recorder saw them, and, with the
    trace of the detail step, the module of each op and what the rank holds."""
    issued = _in_window(trace, sidecar.of(Issued))
    trace = _without_calling_thread_transfers(trace)
    trace, added = _with_own_events(trace, [record for record in issued if record.end_ns])
    event_of, lost = _matched(trace, [record for record in issued if not record.end_ns])
    event_of.update(added)
    group_name = {name: row for row, name in enumerate(trace.names)}
    rows = [
        _row(event_of[r.order], group_name.setdefault(r.group, len(group_name)), r)
        for r in issued
        if r.order in event_of
    ]
    whole = replace(
        trace,
        names=tuple(group_name),
        collectives=columns(Collectives, rows),
        groups={**trace.groups, **{g.name: tuple(g.ranks) for g in sidecar.of(RecordedGroup)}},
        facts={**trace.facts, **_facts(sidecar.of(RecordedHost))},
    )
    ended = _ended_by_waits(
        whole, sidecar, [(event_of[r.order], r) for r in issued if r.order in event_of]
    )
    if detail is not None:
        ended = with_memory(with_layers(ended, sidecar, detail), sidecar, detail)
    return ended.noting(*_notes(sidecar, lost))


def _ended_by_waits(trace: Trace, sidecar: Sidecar, issued: Sequence[tuple[int, Issued]]) -> Trace:
    """No transfer ends after the wait for it: a range that does was closed late, by a thread that
    had to queue for a core."""
    end = trace.events.end_ns.copy()
    by_order = {record.order: event for event, record in issued}
    for wait in sidecar.of(Wait):
        if wait.order in by_order:
            _end_by(trace, end, by_order[wait.order], wait.end_ns)
    for final in final_waits(RankView(trace, sidecar), issued):
        for event in final.transfers:
            _end_by(trace, end, event, final.end_ns)
    return replace(trace, events=replace(trace.events, end_ns=end))


def _end_by(trace: Trace, end: Int64, event: int, moment: int) -> None:
    end[event] = max(min(int(end[event]), moment), int(trace.events.start_ns[event]))


def _in_window(trace: Trace, records: Iterable[Issued]) -> list[Issued]:
    """What was issued while the trace was taken, in order of issue."""
    first = int(trace.events.start_ns.min()) - EARLY_NS
    last = int(trace.events.end_ns.max())
    return sorted(
        (r for r in records if first <= r.enqueue_ns <= last), key=lambda record: record.order
    )


def _without_calling_thread_transfers(trace: Trace) -> Trace:
    """gloo's send and receive ranges sit on the calling thread until they are waited for: they are
    no transfer times. They stay as annotations; the recorder tells the transfer."""
    events = trace.events
    on_comm = np.array([lane.kind is LaneKind.COMM_THREAD for lane in trace.lanes] or [False])
    category = np.where(
        (events.category == Category.COMMUNICATION) & ~on_comm[events.lane],
        Category.ANNOTATION,
        events.category,
    )
    return replace(trace, events=replace(events, category=category.astype(np.uint8)))


def _matched(trace: Trace, issued: Sequence[Issued]) -> tuple[dict[int, int], int]:
    """Issue order -> event: of its kind, the first free one that begins after the enqueue."""
    events, free = trace.events, _transfers(trace)
    found: dict[int, int] = {}
    lost = 0
    for record in issued:
        queue = free.get(collective_of(record.executed or record.op), [])
        while queue and events.start_ns[queue[0]] < record.enqueue_ns - EARLY_NS:
            queue.pop(0)
        if queue:
            found[record.order] = queue.pop(0)
        else:
            lost += 1
    return found, lost


def _transfers(trace: Trace) -> dict[Collective, list[int]]:
    """Events that move data, by kind, in order of start."""
    collectives, events = trace.collectives, trace.events
    rows = collectives.event[np.argsort(events.start_ns[collectives.event], kind="stable")]
    kinds = dict(zip(collectives.event.tolist(), collectives.op.tolist()))
    free: dict[Collective, list[int]] = {}
    for row in rows.tolist():
        free.setdefault(Collective(kinds[row]), []).append(row)
    return free


def _with_own_events(trace: Trace, issued: Sequence[Issued]) -> tuple[Trace, dict[int, int]]:
    """The trace with an event for each record that has times of its own; issue order -> event.

    They lie on lanes of their own, as many as there are transfers at once.
    """
    if not issued:
        return trace, {}
    names = {name: row for row, name in enumerate(trace.names)}
    lane_of, width = _packed(issued)
    first = len(trace.lanes)
    rows = [
        (
            names.setdefault(f"{r.op}", len(names)),
            Category.COMMUNICATION,
            first + lane_of[r.order],
            r.start_ns or r.enqueue_ns,
            max(r.end_ns, r.start_ns or r.enqueue_ns),
            r.size_bytes,
            NONE,
            NONE,
            NONE,
            False,
            NONE,
        )
        for r in issued
    ]
    events = stacked([trace.events, columns(Events, rows)])
    order = np.lexsort((-events.end_ns, events.start_ns, events.lane))
    moved = np.empty(len(order), np.int64)
    moved[order] = np.arange(len(order))
    lanes = tuple(TraceLane(f"communication {n}", LaneKind.COMM_THREAD) for n in range(width))
    collectives = replace(trace.collectives, event=_moved(trace.collectives.event, moved))
    whole = replace(
        trace,
        events=select(events, order),
        names=tuple(names),
        lanes=trace.lanes + lanes,
        collectives=collectives,
    )
    count = len(trace.events)
    return whole, {r.order: int(moved[count + n]) for n, r in enumerate(issued)}


def _moved(rows: Any, moved: Int64) -> Any:
    return np.where(rows == NONE, NONE, moved[rows]).astype(np.int32)


def _packed(issued: Sequence[Issued]) -> tuple[dict[int, int], int]:
    """Lane of each transfer: the first that is free by then; and how many lanes that takes."""
    free_at: list[int] = []
    lane: dict[int, int] = {}
    for record in sorted(issued, key=lambda r: r.start_ns or r.enqueue_ns):
        start = record.start_ns or record.enqueue_ns
        fits = [n for n, at in enumerate(free_at) if at <= start]
        chosen = fits[0] if fits else len(free_at)
        if not fits:
            free_at.append(0)
        free_at[chosen] = max(record.end_ns, start)
        lane[record.order] = chosen
    return lane, len(free_at)


def _row(event: int, group: int, record: Issued) -> tuple[int, ...]:
    op = collective_of(record.executed or record.op)
    sends = record.op in ("send", "isend")
    size = max(record.size_bytes, record.output_bytes)
    dtype = dtype_of(record.dtype)
    return (event, group, record.sequence, op, dtype, size, record.peer, sends, record.order)


def _facts(hosts: Sequence[RecordedHost]) -> dict[str, Any]:
    if not hosts:
        return {}
    host = {item: getattr(hosts[0], item) for item in ("job", "device", "versions", "command")}
    return {**host, "host_name": hosts[0].host, "cores": hosts[0].cores}


def _notes(sidecar: Sidecar, lost: int) -> list[str]:
    notes = []
    if sidecar.truncated:
        notes.append("the recorder's file ends in the middle of a line; the rest is left out")
    if lost:
        notes.append(f"{lost} collectives were issued whose transfer the trace does not show")
    return [*notes, *count_notes(sidecar)]
