"""Waiting for a core, apart from work: what the kernel counted comes out of the ops it stretched.

The recorder counts, for a phase of the training thread, and for a step of a communication thread,
how long the thread stood ready without a core, and how many turns it took. A thread that loses its
core loses it for a whole turn of another, so the waiting lies in no more ops than there were turns:
in those that are longest against the same op in other steps, and, beyond that, in the longest.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from itertools import accumulate
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from paceline.graph import NONE, DepKind, Graph, OpKind
from paceline.graph.border import UNSCALED
from paceline.graph.graph import OpColumns, Spread
from paceline.record.sidecar import CoreTime, RecordedHost, Step
from paceline.trace.assemble import RankBlock, recording_cost
from paceline.trace.plain import run_ns
from paceline.trace.refaults import refaults_ns
from paceline.trace.stack import dependencies
from paceline.trace.steps import usable
from paceline.trace.trace import Int64

NAME: Final = "waiting for a core"
_KEPT: Final = frozenset({"rank", "lane", "phase", "layer", "step", "priority"})
_ABSENT: Final = frozenset({"group", "instance", "tensor", "work"})
_IDLE: Final = (OpKind.WAIT, OpKind.MARKER)


@dataclass(frozen=True, eq=False)
class TimedLane:
    """The ops of one thread in order of time: when each began, and how long it took."""

    op: Int64
    start_ns: Int64
    length_ns: Int64
    usual_ns: Int64  # median of like ops; its own length where there are none

    def during(self, got: CoreTime) -> "TimedLane":
        """Those that begin in a stretch."""
        first, last = np.searchsorted(self.start_ns, [got.begin_ns, got.end_ns])
        return TimedLane(*(getattr(self, item.name)[first:last] for item in fields(self)))


def core_waits(blocks: Sequence[RankBlock], dur_ns: Int64) -> Int64:
    """For each op of all ranks the part of its duration in which its thread had no core."""
    waits = np.zeros(len(dur_ns), np.int64)
    if not any(block.view.sidecar and block.view.sidecar.of(CoreTime) for block in blocks):
        return waits
    usual = _usual(blocks, dur_ns)
    for block, mine in _slices(blocks):
        waits[mine] = _of_block(block, dur_ns[mine], usual[mine])
    return waits


def plain_waits(blocks: Sequence[RankBlock], waits_ns: Int64) -> Int64:
    """The same of plain steps. Who shares cores waits in proportion to what runs on them, and plain
    steps run nothing for recording, but have page faults that recorded ones are spared. Training
    threads with a core each wait for threads of communication alone, which run as before."""
    if not _crowded(blocks):
        return waits_ns
    return np.concatenate(
        [
            np.rint(waits_ns[mine] * _of_steps(block, _growth(block))).astype(np.int64)
            for block, mine in _slices(blocks)
        ]
    )


def _crowded(blocks: Sequence[RankBlock]) -> bool:
    """Whether some machine has fewer cores than its ranks have threads that compute."""
    told = [block.view.sidecar for block in blocks if block.view.sidecar is not None]
    hosts = [host for each in told for host in each.of(RecordedHost)[:1]]
    threads = Counter[str]()
    for host in hosts:
        threads[host.kernel] += max(1, host.threads)
    return any(0 < host.cores < threads[host.kernel] for host in hosts)


def _slices(blocks: Sequence[RankBlock]) -> Iterator[tuple[RankBlock, slice]]:
    """Each block, and where the ops of all of them are its own."""
    ends = accumulate(len(block.rows) for block in blocks)
    return ((block, slice(end - len(block.rows), end)) for block, end in zip(blocks, ends))


def _growth(block: RankBlock) -> dict[int, float]:
    """What a rank's training thread runs in a plain step, of what it ran in each recorded one."""
    view, cost = block.view, recording_cost(block.view)
    steps = [s for s in usable(view.sidecar.of(Step)) if run_ns(s)] if view.sidecar else []
    if view.sidecar is None or not steps:
        return {}
    borders = [border for step in steps for border in (step.begin_ns, step.end_ns)]
    events = np.diff(np.searchsorted(_begins(block, block.main_lane), borders))[::2]
    missing = refaults_ns(view.sidecar, [step.index for step in steps])
    more = missing - events * cost.op_ns
    return {s.index: max(0.0, 1 + ns / (run_ns(s) or 1)) for s, ns in zip(steps, more.tolist())}


def _of_steps(block: RankBlock, growth: Mapping[int, float]) -> NDArray[np.float64]:
    """For each op that of its step."""
    numbers, place = np.unique(block.rows.step, return_inverse=True)
    return np.array([growth.get(number, 1.0) for number in numbers.tolist()])[place]


def with_core_waits(graph: Graph, waits_ns: Int64) -> Graph:
    """The graph with a wait behind every op that had one; its successors wait for that."""
    op, count = np.flatnonzero(waits_ns), len(graph)
    if not len(op):
        return graph
    order = np.argsort(np.concatenate([np.arange(count), op]), kind="stable")
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    behind = np.arange(count)
    behind[op] = np.arange(count, len(order))
    names = dict(zip(graph.names, range(len(graph.names))))
    return replace(
        graph,
        ops=_ops(graph.ops, op, waits_ns[op], names.setdefault(NAME, len(names)), order),
        deps=dependencies(len(order), _links(graph, op, place, place[behind])),
        names=tuple(names),
        drains=replace(graph.drains, op=place[graph.drains.op].astype(np.int32)),
        memory=replace(graph.memory, op=place[graph.memory.op].astype(np.int32)),
        spread=None if graph.spread is None else _spread(graph.spread, place, len(order)),
    )


def spread_delay(got: CoreTime, lane: TimedLane, recording_ns: int = 0) -> Int64:
    """The waiting of a stretch, shared out among its ops. They cannot have waited for longer than
    they took beyond what the thread ran; what it ran for recording is in no op any more."""
    whole = int(lane.length_ns.sum())
    delay = max(0, min(got.delay_ns, whole - (got.run_ns - recording_ns)))
    excess = np.maximum(lane.length_ns - lane.usual_ns, 0)
    hit = np.argsort(-excess, kind="stable")[: max(1, got.turns)]
    before = np.concatenate([[0], np.cumsum(excess[hit])[:-1]])
    taken = np.zeros(len(lane.op), np.int64)
    taken[hit] = np.clip(delay - before, 0, excess[hit])
    left = lane.length_ns - taken
    longest = np.argsort(-left, kind="stable")[: max(1, got.turns)]
    rest = min(delay - int(taken.sum()), int(left[longest].sum()))
    if rest > 0:
        taken[longest] += np.rint(left[longest] * (rest / left[longest].sum())).astype(np.int64)
    return taken


def _of_block(block: RankBlock, dur_ns: Int64, usual_ns: Int64) -> Int64:
    waits = np.zeros(len(dur_ns), np.int64)
    counted = block.view.sidecar.of(CoreTime) if block.view.sidecar is not None else []
    threads = {got.thread: block.view.thread_lane(got.thread) for got in counted}
    lanes = {thread: _lane(block, on, dur_ns, usual_ns) for thread, on in threads.items()}
    events = {thread: _begins(block, on) for thread, on in threads.items()}
    event_ns = recording_cost(block.view).op_ns
    for got in counted:
        stretch = lanes[got.thread].during(got)
        if got.delay_ns and len(stretch.op):
            first, last = np.searchsorted(events[got.thread], [got.begin_ns, got.end_ns])
            waits[stretch.op] += spread_delay(got, stretch, round((last - first) * event_ns))
    return waits


def _begins(block: RankBlock, lane: int) -> Int64:
    """When each recorded event of a thread began."""
    events = block.view.trace.events
    return np.sort(events.start_ns[events.lane == lane])


def _lane(block: RankBlock, lane: int, dur_ns: Int64, usual_ns: Int64) -> TimedLane:
    """What works on a lane; nothing where the trace does not show the thread."""
    rows = block.rows
    works = (rows.lane == lane) & (rows.step != NONE) & (dur_ns > 0) & ~np.isin(rows.kind, _IDLE)
    op = np.flatnonzero(works if lane != NONE else np.zeros(len(rows), np.bool_))
    op = op[np.argsort(rows.start_ns[op], kind="stable")]
    return TimedLane(op, rows.start_ns[op], dur_ns[op], usual_ns[op])


def _usual(blocks: Sequence[RankBlock], dur_ns: Int64) -> Int64:
    """For each op the median of like ops on its lane."""
    alike = np.concatenate([block.alike for block in blocks])
    lane = np.concatenate([b.rows.lane + (n << 20) for n, b in enumerate(blocks)])
    known = np.flatnonzero(alike != NONE)
    order = known[np.lexsort((dur_ns[known], alike[known], lane[known]))]
    new = np.ones(len(order), np.bool_)
    new[1:] = (np.diff(lane[order]) != 0) | (np.diff(alike[order]) != 0)
    first = np.flatnonzero(new)
    sizes = np.diff(np.append(first, len(order)))
    usual = dur_ns.copy()
    usual[order] = np.repeat(dur_ns[order[first + (sizes - 1) // 2]], sizes)
    return usual


def _ops(ops: OpColumns, op: Int64, waits_ns: Int64, name: int, order: Int64) -> OpColumns:
    given: dict[str, Any] = {
        "kind": OpKind.CORE_WAIT,
        "dur_ns": waits_ns,
        "name": name,
        "scale_ppb": UNSCALED,
    }
    made = {}
    for item in fields(OpColumns):
        column = getattr(ops, item.name)
        fallback = NONE if item.name in _ABSENT else 0
        value = column[op] if item.name in _KEPT else given.get(item.name, fallback)
        made[item.name] = np.concatenate([column, np.broadcast_to(value, len(op))])[order].astype(
            column.dtype
        )
    return OpColumns(**made)


def _links(graph: Graph, op: Int64, place: Int64, behind: Int64) -> Int64:
    """All links: from ops to the waits behind them, and from those to what waited for the ops."""
    deps = graph.deps
    owner = np.repeat(np.arange(len(graph)), np.diff(deps.ptr))
    old = np.stack([place[owner], behind[deps.src], deps.kind, deps.inferred])
    to_wait = np.full(len(op), DepKind.ORDER)
    new = np.stack([behind[op], place[op], to_wait, np.zeros(len(op), np.int64)])
    return np.concatenate([old, new], axis=1)


def _spread(spread: Spread, place: Int64, count: int) -> Spread:
    """Samples stay with their ops; waits have none."""
    sizes = np.zeros(count, np.int64)
    sizes[place[: len(spread.ptr) - 1]] = np.diff(spread.ptr)
    return Spread(np.concatenate([[0], np.cumsum(sizes)]), spread.samples_ns)
