"""Work that began after a rest of its thread: which it is, and how long it takes in a row."""

import numpy as np

from paceline.cluster.machine import Machine, Rests
from paceline.graph import UNPRICED, Graph, LaneKind, OpKind
from paceline.graph.graph import Bool, Int64
from paceline.graph.scaled import scaled
from paceline.replay import Timeline, replay
from paceline.replay.hosts import SharedHosts


def after_rests_ns(timeline: Timeline, rests: Rests) -> Int64:
    """Durations with work that began after a rest taking longer."""
    late = begun_cold(timeline, rests.least_ns, rests.warm_ns / rests.factor)
    longer = np.rint(timeline.dur_ns * rests.factor).astype(np.int64)
    return np.where(late, longer, timeline.dur_ns)


def in_a_row(graph: Graph, machine: Machine | None) -> Graph:
    """A recorded step whose work takes as long as without the rests that it had: on another network
    it has others. Wrong where another machine was recorded than was measured."""
    if machine is None or not machine.rests.cost or not _recorded_on_threads(graph):
        return graph
    hosts = SharedHosts.one_machine(graph.world_size, graph.facts.cores)
    late = begun_cold(replay(graph, hosts=hosts), machine.rest_ns, machine.warm_ns)
    return scaled(graph, late, 1 / machine.rested)


def begun_cold(timeline: Timeline, least_ns: float, warm_ns: float) -> Bool:
    """Work that its lane began after a rest, or before it had worked for long enough since."""
    ops = timeline.graph.ops
    found = np.zeros(len(timeline.graph), np.bool_)
    works = np.flatnonzero((ops.kind == OpKind.COMPUTE) & (timeline.dur_ns > 0))
    works = works[np.argsort(ops.lane[works], kind="stable")]
    lane, start, end = ops.lane[works], timeline.start_ns[works], timeline.end_ns[works]
    fresh = np.append(True, lane[1:] != lane[:-1])[: len(works)]
    rest = np.append(False, start[1:] - end[:-1] >= least_ns)[: len(works)] & ~fresh
    since = _worked_since(timeline.dur_ns[works], rest | fresh)
    rested = np.maximum.accumulate(np.where(rest | fresh, np.arange(len(works)), 0))
    found[works] = rest[rested] & (rest | (since < warm_ns))
    return found


def _worked_since(dur_ns: Int64, begins: Bool) -> Int64:
    """How much work lies before each op since the last that begins a row."""
    before = np.cumsum(dur_ns) - dur_ns
    first = np.maximum.accumulate(np.where(begins, np.arange(len(dur_ns)), 0))
    return before - before[first]


def _recorded_on_threads(graph: Graph) -> bool:
    """On a host whose cores are known, every duration of it."""
    streams = (graph.lanes.kind == LaneKind.STREAM).any()
    return bool(graph.facts.cores and not streams and (graph.ops.dur_ns != UNPRICED).all())
