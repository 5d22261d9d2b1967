"""What each rank holds on its device over time, by category, and the op at which it is most."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from paceline.graph import NONE, DeviceKind, Graph, MemoryCategory, Phase, RankMemory
from paceline.graph.graph import Int64
from paceline.replay.memory import order_of_events
from paceline.replay.timeline import Timeline

_CATEGORIES = len(MemoryCategory)


@dataclass(frozen=True)
class RankPeak:
    """What one rank holds when it holds most, in bytes."""

    rank: int
    peak_bytes: int
    by_category: Mapping[str, int]  # at that moment
    highest: Mapping[str, int]  # of each category at any moment
    at_ns: int
    op: str
    phase: str
    layer: str
    step: int = NONE  # of the recording, whose allocations are told
    other_ops: float = 0.0  # the largest part of another recorded step's that it did not run


@dataclass(frozen=True, eq=False)
class RankCurve:
    """What one rank holds on its fullest device after each allocation and free, over time."""

    told: RankMemory  # by the recording
    device: int
    time_ns: Int64
    op: Int64  # whose allocation or free it was
    held_bytes: Int64  # a row for each category
    begins_with: Int64  # by category, before the first

    @property
    def rank(self) -> int:
        return self.told.rank

    @property
    def peak(self) -> int:
        """Where most is held first."""
        return int(np.argmax(self.held_bytes.sum(axis=0)))

    @property
    def peak_bytes(self) -> int:
        return int(self.held_bytes[:, self.peak].sum())


def rank_peaks(timeline: Timeline) -> tuple[RankPeak, ...]:
    """One peak a rank; none where the graph does not tell what ops allocate."""
    return tuple(_peak(timeline.graph, curve) for curve in rank_curves(timeline))


def rank_curves(timeline: Timeline) -> tuple[RankCurve, ...]:
    """One curve for each rank; none where the graph does not tell what ops allocate."""
    graph = timeline.graph
    memory = graph.memory
    if not len(memory.op):
        return ()
    time, order = order_of_events(timeline)
    known = {held.rank: held for held in graph.facts.memory}
    owner = graph.ops.rank[memory.op]
    found = []
    for rank in graph.ranks:
        rows = order[owner[order] == rank]
        device = _fullest(graph, rows)
        rows = rows[memory.device[rows] == device]
        if len(rows):
            found.append(_curve(graph, known.get(rank, RankMemory(rank)), rows, time))
    return tuple(found)


def standing(held: RankMemory, update_shards: int) -> Int64:
    """What a step begins with, by category, as the data axis cuts it."""
    found = np.zeros(_CATEGORIES, np.int64)
    found[MemoryCategory.WEIGHTS] = -(-held.weights // held.weight_shards)
    found[MemoryCategory.GRADIENTS] = -(-held.gradients // held.weight_shards)
    found[MemoryCategory.OPTIMIZER] = -(-held.optimizer // update_shards)
    found[MemoryCategory.COMMUNICATION] = held.communication
    found[MemoryCategory.OTHER] = held.other
    return found


def _fullest(graph: Graph, rows: Int64) -> int:
    """The rank's accelerator where it has one, else its host."""
    devices = np.unique(graph.memory.device[rows]).tolist()
    gpus = [d for d in devices if graph.devices[d].kind is DeviceKind.GPU]
    return int((gpus or devices or [0])[0])


def _curve(graph: Graph, held: RankMemory, rows: Int64, time: Int64) -> RankCurve:
    memory = graph.memory
    base = standing(held, graph.facts.update_shards)
    curves = np.zeros((_CATEGORIES, len(rows)), np.int64)
    kind, delta = memory.category[rows], memory.delta_bytes[rows]
    curves[kind, np.arange(len(rows))] = delta
    curves = base[:, None] + np.cumsum(curves, axis=1)
    whole = int(base[MemoryCategory.GRADIENTS])
    if whole:
        mine = np.where(kind == MemoryCategory.GRADIENTS, delta, 0)
        curves[MemoryCategory.GRADIENTS] = _at_most(mine, whole)
    device = int(memory.device[rows[0]])
    return RankCurve(held, device, time[rows], memory.op[rows].astype(np.int64), curves, base)


def _peak(graph: Graph, curve: RankCurve) -> RankPeak:
    at = curve.peak
    op = graph[int(curve.op[at])]
    return RankPeak(
        rank=curve.rank,
        peak_bytes=curve.peak_bytes,
        by_category=_named(curve.held_bytes[:, at]),
        highest=_named(np.maximum(curve.held_bytes.max(axis=1), curve.begins_with)),
        at_ns=int(curve.time_ns[at]),
        op=op.name,
        phase=Phase(op.phase).name.lower(),
        layer=op.layer,
        step=curve.told.step,
        other_ops=curve.told.other_ops,
    )


def _named(bytes_by_category: Int64) -> dict[str, int]:
    rows = zip(MemoryCategory, bytes_by_category.tolist())
    return {category.name.lower(): held for category, held in rows if held}


def _at_most(delta: Int64, whole: int) -> Int64:
    """Gradients held: a gradient that is there is added to, and takes no more room."""
    held = [whole]
    for more in delta[delta != 0].tolist():
        held.append(min(whole, max(0, held[-1] + more)))
    found: Int64 = np.array(held, np.int64)[np.cumsum(delta != 0)]
    return found
