"""Gradient -> its bucket's collective -> the optimizer.

A collective carries gradients if it was launched where autograd accumulates one, where a sharded
module reduces its own, or for a bucket that the recorder knows. The bucket map says which gradients
it carries; without one, those that became ready since the collective before. No link is drawn that
the recorded times contradict.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np

from paceline.graph import NONE, Collective, DepKind
from paceline.record.sidecar import Collective as Issued
from paceline.record.sidecar import RecordedBucket
from paceline.trace.blockrows import step_at
from paceline.trace.findings import Findings, Links, link_rows, stacked
from paceline.trace.gradients import ACCUMULATION, ready_order
from paceline.trace.steps import steps_of
from paceline.trace.trace import Bool, Category, Int64, select
from paceline.trace.view import RankView, call_column

_NODE: Final = "autograd::engine::evaluate_function"
_SHARDED: Final = ("FSDP::post_backward", "FullyShardedDataParallel._post_backward")
_UPDATE: Final = "Optimizer.step#"
_REDUCTIONS: Final = (Collective.ALL_REDUCE, Collective.REDUCE_SCATTER, Collective.REDUCE)


@dataclass(frozen=True, eq=False)
class Sent:
    """Collectives of gradients, in order of (lane, launch)."""

    event: Int64  # row of `Events`
    lane: Int64  # thread that launched it
    at_ns: Int64  # when it did
    bucket: Int64  # NONE where nothing tells

    def __len__(self) -> int:
        return len(self.event)


@dataclass(frozen=True, eq=False)
class Ready:
    """Gradients, in order of (lane, time)."""

    lane: Int64
    at_ns: Int64  # begin of the accumulation
    made_ns: Int64  # end of the backward node that made it

    def __len__(self) -> int:
        return len(self.lane)


def find(view: RankView, found: Findings) -> Findings:
    """`found`: what tells when each collective was launched."""
    sent = _sent(view, found.links)
    if not len(sent):
        return Findings()
    ready = _ready(view)
    carrier, known = _carriers(view, ready, sent)
    carried = carrier != NONE
    into = _into(view, select(ready, carried), select(sent, carrier[carried]), inferred=not known)
    return Findings(stacked([into, _updates(view, sent)]))


def _sent(view: RankView, links: Links) -> Sent:
    issued, launch = view.trace.collectives, links.kind == DepKind.LAUNCH
    lane, at = np.full((2, len(view.trace.events)), NONE, np.int64)
    lane[links.dst_event[launch]] = links.src_lane[launch]
    at[links.dst_event[launch]] = links.src_ns[launch]
    kept = (issued.event != NONE) & np.isin(issued.op, _REDUCTIONS)
    event, bucket = issued.event[kept].astype(np.int64), _buckets(view, issued.order[kept])
    lane, at = lane[event], at[event]
    carries = (bucket != NONE) | _within(view, lane, at, ACCUMULATION, *_SHARDED)
    sent = select(Sent(event, lane, at, bucket), (lane != NONE) & carries)
    return select(sent, np.argsort(view.key(sent.lane, sent.at_ns), kind="stable"))


def _buckets(view: RankView, order: Int64) -> Int64:
    """The bucket of each issued collective, where the recorder knows it."""
    issued = view.sidecar.of(Issued) if view.sidecar else []
    bucket = {record.order: record.bucket for record in issued}
    return np.array([bucket.get(number, NONE) for number in order.tolist()], np.int64)


def _within(view: RankView, lane: Int64, at_ns: Int64, *prefixes: str) -> Bool:
    """Which moments lie in a range of such a name; ranges of one name do not nest."""
    inside = np.zeros(len(lane), np.bool_)
    key = view.key(lane, at_ns)
    for prefix in prefixes:
        starts, ends = _ranges(view, prefix)
        if len(starts):
            at = np.searchsorted(starts, key, "right") - 1
            inside |= (at >= 0) & (key <= ends[np.maximum(at, 0)])
    return inside


def _ranges(view: RankView, prefix: str) -> tuple[Int64, Int64]:
    """Begins and ends, as keys, of the host ranges of such a name."""
    events, rows = view.trace.events, np.flatnonzero(view.names_with(prefix) & view.is_host)
    lane = events.lane[rows]
    return view.key(lane, events.start_ns[rows]), view.key(lane, events.end_ns[rows])


def _ready(view: RankView) -> Ready:
    events = view.trace.events
    adds = view.names_with(ACCUMULATION) & view.is_host
    rows, nodes = np.flatnonzero(adds), np.flatnonzero(view.names_with(_NODE) & ~adds)
    nodes = nodes[np.argsort(view.key(events.lane[nodes], events.end_ns[nodes]), kind="stable")]
    lane, start = events.lane[rows].astype(np.int64), events.start_ns[rows]
    ends = view.key(events.lane[nodes], events.end_ns[nodes])
    at = np.searchsorted(ends, view.key(lane, start), "right") - 1
    made = nodes[np.maximum(at, 0)] if len(nodes) else np.zeros(len(rows), np.int64)
    known = (at >= 0) & (events.lane[made] == lane)
    return Ready(lane, start, np.where(known, events.end_ns[made], start))


def _carriers(view: RankView, ready: Ready, sent: Sent) -> tuple[Int64, bool]:
    """Row of `sent` that carries each gradient (NONE for none), and whether that was recorded."""
    recorded = _recorded_carriers(view, ready, sent)
    if (recorded != NONE).any():
        return recorded, True
    key, launched = view.key(ready.lane, ready.at_ns), view.key(sent.lane, sent.at_ns)
    at = np.searchsorted(launched, key, "left")
    next_one = np.minimum(at, len(sent) - 1)
    fits = (at < len(sent)) & (sent.lane[next_one] == ready.lane)
    return np.where(fits, next_one, NONE), False


def _recorded_carriers(view: RankView, ready: Ready, sent: Sent) -> Int64:
    """By the bucket map, in steps that accumulate as many gradients as were recorded."""
    order = ready_order(view)
    buckets = view.sidecar.of(RecordedBucket) if view.sidecar else []
    bucket_of = {parameter: b.index for b in buckets for parameter in b.parameters}
    steps, _ = steps_of(view)
    step, launched = step_at(steps, ready.at_ns), step_at(steps, sent.at_ns)
    row_of = {key: row for row, key in enumerate(zip(launched.tolist(), sent.bucket.tolist()))}
    carrier = np.full(len(ready), NONE, np.int64)
    for number in np.unique(step[step != NONE]).tolist():
        mine = np.flatnonzero(step == number)
        if len(mine) == len(order):
            rows = [row_of.get((number, bucket_of.get(p, NONE)), NONE) for p in order]
            carrier[mine] = rows
    late = (carrier != NONE) & (ready.made_ns > sent.at_ns[np.maximum(carrier, 0)])
    return np.where(late, NONE, carrier)


def _into(view: RankView, ready: Ready, sent: Sent, *, inferred: bool) -> Links:
    """From what made each gradient, kernel or host op, to the collective beside it."""
    events = view.trace.events
    kernel = _last_launched(view, ready.lane, ready.made_ns)
    on_device = _on_device(view, sent.event)
    kept = ~on_device | (kernel != NONE)
    late = on_device & kept & (events.end_ns[kernel] > events.start_ns[sent.event])
    ready, sent, kernel = (
        select(ready, kept & ~late),
        select(sent, kept & ~late),
        kernel[kept & ~late],
    )
    on_device = _on_device(view, sent.event)
    return link_rows(
        len(sent),
        DepKind.GRADIENT,
        inferred=inferred,
        src_event=np.where(on_device, kernel, NONE),
        src_lane=ready.lane,
        src_ns=ready.made_ns,
        dst_event=sent.event,
    )


def _updates(view: RankView, sent: Sent) -> Links:
    """From each collective to the optimizer's first work after it."""
    events = view.trace.events
    calls = np.flatnonzero(view.names_with(_UPDATE) & view.is_host)
    calls = calls[np.argsort(events.start_ns[calls], kind="stable")]
    at = np.searchsorted(events.start_ns[calls], sent.at_ns, "left")
    sent, calls = select(sent, at < len(calls)), calls[at[at < len(calls)]]
    lane, begin, done = events.lane[calls], events.start_ns[calls], events.end_ns[sent.event]
    kernel, on_device = _first_launched(view, calls), _on_device(view, sent.event)
    before = np.where(
        on_device, (kernel != NONE) & (done <= events.start_ns[kernel]), done <= begin
    )
    return link_rows(
        int(before.sum()),
        DepKind.GRADIENT,
        inferred=True,
        src_event=sent.event[before],
        dst_event=np.where(on_device, kernel, NONE)[before],
        dst_lane=lane[before],
        dst_ns=begin[before],
    )


def _on_device(view: RankView, event: Int64) -> Bool:
    on_device: Bool = view.trace.events.category[event] == Category.KERNEL
    return on_device


def _last_launched(view: RankView, lane: Int64, at_ns: Int64) -> Int64:
    """The last device work, but communication, that the thread launched by each moment."""
    work, call = _computing(view)
    key = view.key(view.trace.events.lane[call], view.trace.events.start_ns[call])
    at = np.searchsorted(key, view.key(lane, at_ns), "right") - 1
    return _of_lane(view, work, call, at, lane)


def _first_launched(view: RankView, calls: Int64) -> Int64:
    """The first device work launched within each host range."""
    events, (work, call) = view.trace.events, _computing(view)
    key = view.key(events.lane[call], events.start_ns[call])
    at = np.searchsorted(key, view.key(events.lane[calls], events.start_ns[calls]), "left")
    found = _of_lane(view, work, call, at, events.lane[calls].astype(np.int64))
    launched = call_column(view)[found]
    return np.where(events.start_ns[launched] <= events.end_ns[calls], found, NONE)


def _computing(view: RankView) -> tuple[Int64, Int64]:
    """Device work that is no communication and its calls, in order of (thread, call)."""
    moves = np.zeros(len(view.trace.events), np.bool_)
    moves[view.trace.collectives.event] = True
    kept = ~moves[view.calls.work]
    return view.calls.work[kept].astype(np.int64), view.calls.call[kept].astype(np.int64)


def _of_lane(view: RankView, work: Int64, call: Int64, at: Int64, lane: Int64) -> Int64:
    """The work at each position, if its launch lies on the lane; NONE otherwise."""
    if not len(work):
        return np.full(len(at), NONE, np.int64)
    safe = np.clip(at, 0, len(work) - 1)
    fits = (at >= 0) & (at < len(work)) & (view.trace.events.lane[call[safe]] == lane)
    return np.where(fits, work[safe], NONE)
