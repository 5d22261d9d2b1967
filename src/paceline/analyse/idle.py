"""Idle time by cause: what a stream, or the thread that computes, was waiting for.

A gap lies between two pieces of a lane's work. It belongs to what the work behind it waited for
last, less the host calls and the waiting for a core that lie in it. HTA tells waiting for the host
from gaps between kernels, for GPUs alone; here a rank and a transfer that was waited for are told
too, and CPU jobs. Wrong where a thread waits for a collective whose last member came late: all of
it then counts as the transfer.
"""

from dataclasses import dataclass
from enum import Enum
from typing import Final

import numpy as np
from numpy.typing import NDArray

from paceline.analyse.lanes import working_lanes
from paceline.graph import COMMUNICATION, NONE, DepKind, LaneKind, OpKind
from paceline.graph.graph import Bool, Graph, Int64
from paceline.graph.links import Links
from paceline.replay import Timeline


class IdleCause(Enum):
    """What was waited for; the value is its name in JSON."""

    HOST = "the host"  # the call came late, or Python ran between operators
    WORK = "other work"  # a kernel of another stream, an op of another thread
    TRANSFER = "a transfer"
    RANK = "another rank"
    CORE = "a core"
    UNKNOWN = "unknown"  # nothing that the trace tells ended in the gap


@dataclass(frozen=True)
class Idle:
    """One lane's time, in ns; `busy_ns` and `by_cause` sum to `span_ns`."""

    rank: int
    lane: str
    span_ns: int  # from its first work to its last
    busy_ns: int
    by_cause: dict[str, int]

    @property
    def idle_ns(self) -> int:
        return self.span_ns - self.busy_ns


_ACTIVE: Final = (OpKind.COMPUTE, OpKind.COPY, OpKind.DATA)
_CAUSES: Final = tuple(IdleCause)


def idle_of(timeline: Timeline) -> tuple[Idle, ...]:
    """One row a working lane."""
    graph = timeline.graph
    causes = _last_cause(timeline)
    rows = [_of_lane(timeline, lane, causes) for lane in working_lanes(graph)]
    return tuple(row for row in rows if row is not None)


def _of_lane(timeline: Timeline, lane: int, causes: NDArray[np.int64]) -> Idle | None:
    graph = timeline.graph
    rows = np.flatnonzero(graph.ops.lane == lane)
    active = np.isin(graph.ops.kind[rows], (*_ACTIVE, *COMMUNICATION))
    if not active.any():
        return None
    work = rows[active]
    start, end = timeline.start_ns[work], timeline.end_ns[work]
    before = np.maximum.accumulate(np.append(timeline.ready_ns[work[:1]], end[:-1]))
    ready = np.clip(timeline.ready_ns[work], before, None)
    waited = np.maximum(start - ready, 0)  # for members of a collective, or lanes to drain
    gap = np.maximum(ready - before, 0)
    own, cause = _in_gaps(timeline, rows, active, causes)
    waits = np.maximum(gap - own.sum(axis=1), 0)
    by_cause = np.bincount(cause, waits, len(_CAUSES)) + own.sum(axis=0)
    by_cause[_CAUSES.index(IdleCause.RANK)] += waited.sum()
    found = {each.value: int(ns) for each, ns in zip(_CAUSES, by_cause) if ns}
    span = int(end.max() - timeline.ready_ns[work[0]])
    name = graph.lanes.name[lane]
    return Idle(int(graph.lanes.rank[lane]), name, span, span - sum(found.values()), found)


def _in_gaps(
    timeline: Timeline, rows: Int64, active: Bool, causes: Int64
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """For each piece of work what lies in the gap before it: time of host calls and of waiting for
    a core, by cause; and the cause of the rest, which is what was waited for last."""
    graph = timeline.graph
    count = int(active.sum())
    before: Int64 = np.cumsum(active) - active
    inside = ~active & (before > 0) & (before < count)  # in a gap between two pieces of work
    kinds, own = graph.ops.kind[rows], np.zeros((count, len(_CAUSES)), np.int64)
    lasts = (timeline.end_ns - timeline.start_ns)[rows]
    for kind, cause in _OWN.items():
        mine = inside & (kinds == kind) & ~_on_stream(graph, rows)
        np.add.at(own[:, _CAUSES.index(cause)], before[mine], lasts[mine])
    found = np.full(count, _CAUSES.index(IdleCause.UNKNOWN))
    told = np.flatnonzero((causes[rows] != NONE) & (before < count))
    found[before[told]] = causes[rows[told]]
    return own, found


_OWN: Final = {OpKind.HOST: IdleCause.HOST, OpKind.CORE_WAIT: IdleCause.CORE}


def _on_stream(graph: Graph, rows: Int64) -> Bool:
    streams: Bool = graph.lanes.kind[graph.ops.lane[rows]] == LaneKind.STREAM
    return streams


def _last_cause(timeline: Timeline) -> NDArray[np.int64]:
    """For each op the cause of what it waited for last on other lanes; NONE where its own lane was
    busy longer."""
    graph, links = timeline.graph, Links.of(timeline.graph)
    across = links.where(graph.ops.lane[links.op] != graph.ops.lane[links.src])
    order = np.lexsort((timeline.end_ns[across.src], across.op))
    last = np.full(len(graph), NONE, np.int64)
    last[across.op[order]] = order  # of equal ops the last is kept
    found = np.full(len(graph), NONE, np.int64)
    waits = np.flatnonzero(last != NONE)
    src, kind = across.src[last[waits]], across.kind[last[waits]]
    late = timeline.end_ns[src] > timeline.start_ns[waits] - _gap_before(timeline, waits)
    found[waits[late]] = _cause(graph, src[late], kind[late])
    return found


def _gap_before(timeline: Timeline, rows: Int64) -> Int64:
    """How long before each op's start its lane had ended what came before."""
    previous = timeline.previous[rows]
    ended = np.where(previous == NONE, 0, timeline.end_ns[np.maximum(previous, 0)])
    gap: Int64 = timeline.start_ns[rows] - ended
    return gap


def _cause(graph: Graph, src: Int64, kind: NDArray[np.integer]) -> NDArray[np.int64]:
    moves = np.isin(graph.ops.kind[src], COMMUNICATION)
    moves |= graph.lanes.kind[graph.ops.lane[src]] == LaneKind.COMM_THREAD
    cause = np.full(len(src), _CAUSES.index(IdleCause.WORK))
    cause[kind == DepKind.LAUNCH] = _CAUSES.index(IdleCause.HOST)
    cause[moves] = _CAUSES.index(IdleCause.TRANSFER)
    return cause
