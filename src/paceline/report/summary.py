"""What a timeline says in ten seconds: where the step's time went, on what it hangs, what is full.

`summarise` computes; the files of `text/` show. Every field is JSON-able by `dataclasses.asdict`.
"""

from collections import defaultdict
from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from paceline.graph import LaneKind, OpKind
from paceline.graph.distinct import Distinct
from paceline.graph.graph import Graph, Int64
from paceline.replay import Breakdown, Distribution, Timeline


@dataclass(frozen=True)
class OnPath:
    """Ops of one name and kind on the critical path."""

    name: str
    kind: str
    count: int
    share_ns: int


@dataclass(frozen=True)
class LaneUse:
    """Lanes of one name on all ranks: their busy share of the step, and what they spent waiting."""

    name: str
    count: int
    busy_mean: float
    busy_least: float
    busy_most: float
    waiting_mean: float


@dataclass(frozen=True)
class MemoryPeak:
    """The most that one device held."""

    device: str
    peak_bytes: int
    peak_ns: int
    capacity_bytes: int  # 0 unknown
    largest: tuple[tuple[str, int], ...]  # ops whose memory was held then, and their bytes


@dataclass(frozen=True)
class Summary:
    """All of it."""

    step_ns: int
    ops: int
    ranks: int
    rank_shares: dict[int, dict[str, int]]  # rank -> state -> ns; a rank's states sum to the step
    path_by_kind: dict[str, int]
    path_by_layer: dict[str, int]
    path_ops: tuple[OnPath, ...]  # most first
    lanes: tuple[LaneUse, ...]  # busiest first
    memory: tuple[MemoryPeak, ...]  # fullest first
    steps: int = 1  # that the timeline holds; `step_ns` and all shares are of all of them
    core_wait_ns: int = 0  # that a rank's threads were ready and had no core, mean over the ranks


@dataclass(frozen=True)
class Draws:
    """How the step time varies, and which ops lie on the critical path how often."""

    count: int
    mean_ns: float
    median_ns: float
    p5_ns: float
    p95_ns: float
    critical: tuple[tuple[str, float], ...]  # op, probability; the most uncertain first


def summarise(timeline: Timeline, top: int = 8) -> Summary:
    """The summary, with at most `top` layers, path ops and allocations."""
    path, breakdown = timeline.critical_path, timeline.breakdown
    return Summary(
        step_ns=timeline.step_ns,
        ops=len(timeline.graph),
        ranks=len(timeline.graph.ranks),
        rank_shares=_rank_shares(breakdown),
        path_by_kind=path.by_kind,
        path_by_layer=dict(list(_named(path.by_layer).items())[:top]),
        path_ops=_path_ops(timeline)[:top],
        lanes=_lane_uses(timeline),
        memory=_memory_peaks(timeline, top),
        steps=len(Distinct.of(timeline.graph.ops.step)),
        core_wait_ns=_core_wait_ns(timeline.graph),
    )


def summarise_draws(graph: Graph, found: Distribution, top: int = 8) -> Draws:
    """The distribution, with the `top` ops that are on the path in some draws and not in others."""
    chance = found.critical_probability
    uncertain = np.argsort(np.abs(chance - 0.5), kind="stable")[:top]
    return Draws(
        len(found.steps_ns),
        found.mean_ns,
        found.median_ns,
        found.p5_ns,
        found.p95_ns,
        tuple((str(graph[int(op)]), float(chance[op])) for op in uncertain if 0 < chance[op] < 1),
    )


def _core_wait_ns(graph: Graph) -> int:
    """Of the threads that compute; those that communicate wait beside them."""
    waits = np.flatnonzero(graph.ops.kind == OpKind.CORE_WAIT)
    waits = waits[graph.lanes.kind[graph.ops.lane[waits]] == LaneKind.THREAD]
    return int(graph.ops.dur_ns[waits].sum()) // max(1, len(graph.ranks))


def _rank_shares(breakdown: Breakdown) -> dict[int, dict[str, int]]:
    states = [f.name for f in fields(breakdown) if f.name != "ranks"]
    rows = zip(*(getattr(breakdown, state).tolist() for state in states))
    return {rank: dict(zip(states, row)) for rank, row in zip(breakdown.ranks, rows)}


def _named(shares: dict[str, int]) -> dict[str, int]:
    return {name: share for name, share in shares.items() if name and share}


def _path_ops(timeline: Timeline) -> tuple[OnPath, ...]:
    path, graph = timeline.critical_path, timeline.graph
    counts = path.share_ns > 0
    ops, share = path.ops[counts], path.share_ns[counts]
    key = graph.ops.name[ops].astype(np.int64) * len(OpKind) + graph.ops.kind[ops]
    keys, first, row = np.unique(key, return_index=True, return_inverse=True)
    sums, many = np.zeros(len(keys), np.int64), np.bincount(row, minlength=len(keys))
    np.add.at(sums, row, share)
    rows = [
        OnPath(
            graph.text(int(keys[at]) // len(OpKind)),
            OpKind(int(keys[at]) % len(OpKind)).name.lower(),
            int(many[at]),
            int(sums[at]),
        )
        for at in np.lexsort((first, -sums)).tolist()
    ]
    return tuple(rows)


def _lane_uses(timeline: Timeline) -> tuple[LaneUse, ...]:
    step = max(timeline.step_ns, 1)
    rows: dict[str, list[int]] = defaultdict(list)
    for lane, name in enumerate(timeline.graph.lanes.name):
        rows[name].append(lane)
    occupancy = timeline.occupancy
    uses = [
        _lane_use(name, occupancy.work_ns[lanes] / step, occupancy.waiting_ns[lanes] / step)
        for name, lanes in rows.items()
    ]
    return tuple(sorted(uses, key=lambda use: -use.busy_mean))


def _lane_use(name: str, busy: NDArray[np.float64], waiting: NDArray[np.float64]) -> LaneUse:
    return LaneUse(
        name,
        len(busy),
        float(busy.mean()),
        float(busy.min()),
        float(busy.max()),
        float(waiting.mean()),
    )


def _memory_peaks(timeline: Timeline, top: int) -> tuple[MemoryPeak, ...]:
    graph = timeline.graph
    if not len(graph.memory.op) or graph.facts.memory:
        return ()  # of recorded ranks, what they hold from step to step is told apart
    peaks = [
        MemoryPeak(
            graph.devices[curve.device].name,
            curve.peak_bytes,
            curve.peak_ns,
            graph.devices[curve.device].memory_bytes,
            _largest(graph, curve.device, curve.alive_at_peak, top),
        )
        for curve in timeline.memory
        if curve.peak_bytes
    ]
    return tuple(sorted(peaks, key=lambda peak: -peak.peak_bytes))


def _largest(graph: Graph, device: int, alive: Int64, top: int) -> tuple[tuple[str, int], ...]:
    """The ops that held most at the peak, by name."""
    memory = graph.memory
    mine = np.isin(memory.op, alive) & (memory.device == device) & (memory.delta_bytes > 0)
    totals: dict[str, int] = defaultdict(int)
    for op, delta in zip(memory.op[mine].tolist(), memory.delta_bytes[mine].tolist()):
        totals[graph.text(int(graph.ops.name[op]))] += delta
    return tuple(sorted(totals.items(), key=lambda item: -item[1])[:top])
