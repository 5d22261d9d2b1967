"""Work that is done after a rest of its thread: how much, and how long it takes in a row."""

import numpy as np

from paceline.cluster.machine import Machine, Rests
from paceline.graph import UNPRICED, Graph, LaneKind, OpKind
from paceline.graph.graph import Bool, Int64
from paceline.graph.scaled import scaled
from paceline.replay import Timeline, replay
from paceline.replay.hosts import SharedHosts


def after_rests_ns(timeline: Timeline, rests: Rests) -> Int64:
    """Durations with what work is done cold, after a rest, taking longer."""
    cold = cold_ns(timeline, rests.least_ns, rests.warm_ns / rests.factor)
    longer: Int64 = timeline.dur_ns + np.rint(cold * (rests.factor - 1)).astype(np.int64)
    return longer


def in_a_row(graph: Graph, machine: Machine | None) -> Graph:
    """A recorded step whose work takes as long as without the rests that it had: on another network
    it has others. Wrong where another machine was recorded than was measured."""
    if machine is None or not machine.rests.cost or not _recorded_on_threads(graph):
        return graph
    hosts = SharedHosts.one_machine(graph.world_size, graph.facts.cores)
    cold = cold_ns(replay(graph, hosts=hosts), machine.rest_ns, machine.warm_ns)
    rows = np.flatnonzero(cold)
    left = np.ones(len(graph))
    left[rows] -= cold[rows] / graph.ops.dur_ns[rows] * (1 - 1 / machine.rested)
    return scaled(graph, rows, left)


def cold_ns(timeline: Timeline, least_ns: float, warm_ns: float) -> Int64:
    """By op: how much of its work its lane does after a rest, until it has worked for so long; 0
    stands for one op."""
    ops = timeline.graph.ops
    found = np.zeros(len(timeline.graph), np.int64)
    works = np.flatnonzero((ops.kind == OpKind.COMPUTE) & (timeline.dur_ns > 0))
    works = works[np.argsort(ops.lane[works], kind="stable")]
    lane, start, end = ops.lane[works], timeline.start_ns[works], timeline.end_ns[works]
    fresh = np.append(True, lane[1:] != lane[:-1])[: len(works)]
    rest = np.append(False, start[1:] - end[:-1] >= least_ns)[: len(works)] & ~fresh
    dur = timeline.dur_ns[works]
    if not warm_ns:
        found[works] = np.where(rest, dur, 0)
        return found
    rested = np.maximum.accumulate(np.where(rest | fresh, np.arange(len(works)), 0))
    left = np.rint(warm_ns - _worked_since(dur, rest | fresh)).astype(np.int64)
    found[works] = np.where(rest[rested], np.clip(left, 0, dur), 0)
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
