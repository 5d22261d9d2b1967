"""What a timeline says in ten seconds: where the step's time went, on what it hangs, what is full.

`summarise` computes; the files of `text/` show. Every field is JSON-able by `dataclasses.asdict`.
"""

from collections import defaultdict
from dataclasses import dataclass

import numpy as np

from paceline.graph import OpKind
from paceline.graph.graph import Graph, Int64
from paceline.replay import Timeline


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


def summarise(timeline: Timeline, top: int = 8) -> Summary:
    """The summary, with at most `top` layers, path ops and allocations."""
    path, breakdown = timeline.critical_path, timeline.breakdown
    return Summary(
        step_ns=timeline.step_ns,
        ops=len(timeline.graph),
        ranks=len(timeline.graph.ranks),
        rank_shares={rank: breakdown.of(rank) for rank in breakdown.ranks},
        path_by_kind=path.by_kind,
        path_by_layer=dict(list(_named(path.by_layer).items())[:top]),
        path_ops=_path_ops(timeline)[:top],
        lanes=_lane_uses(timeline),
        memory=_memory_peaks(timeline, top),
    )


def _named(shares: dict[str, int]) -> dict[str, int]:
    return {name: share for name, share in shares.items() if name and share}


def _path_ops(timeline: Timeline) -> tuple[OnPath, ...]:
    path, graph = timeline.critical_path, timeline.graph
    keys = zip(graph.ops.name[path.ops].tolist(), graph.ops.kind[path.ops].tolist())
    found: dict[tuple[int, int], list[int]] = defaultdict(list)
    for key, share in zip(keys, path.share_ns.tolist()):
        if share:
            found[key].append(share)
    rows = [
        OnPath(graph.text(name), OpKind(kind).name.lower(), len(shares), sum(shares))
        for (name, kind), shares in found.items()
    ]
    return tuple(sorted(rows, key=lambda row: -row.share_ns))


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


def _lane_use(name: str, busy: "np.ndarray", waiting: "np.ndarray") -> LaneUse:
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
    if not len(graph.memory.op):
        return ()
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
