"""Recorded work brought to what each rank's training thread ran in steps without instruments.

Recording costs small operators more than it can tell, and what the profiler keeps in memory changes
who pays for fresh pages: a job's recorded steps may then run much longer than its plain ones. The
kernel counts what the thread ran in both, whatever the network and other programs did meanwhile.
The surplus is first taken off every op alike, up to a few microseconds, then by share, step by
step: page faults come in some steps on one rank and in others on another. Wrong where a surplus of
page faults lies in few operators, for it is taken off all; and where steps differ by nature.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from statistics import median
from typing import Final

import numpy as np

from paceline.graph import NONE, Graph, LaneKind
from paceline.graph.graph import Int64
from paceline.graph.scaled import works
from paceline.record.sidecar import Mode, RecordedHost, Sidecar, Step

OP_NS: Final = 3_000
"""What recording an op costs at most beyond what the recorder measured: twice its own figure."""
LEAST: Final = 0.3


def plain_runs_ns(sidecars: Sequence[Sidecar]) -> dict[int, float]:
    """By rank what its training thread ran in a plain step; without ranks whose kernel keeps no
    count."""
    found: dict[int, float] = {}
    for one in sidecars:
        plain = [s for s in one.of(Step) if s.mode is Mode.PLAIN and s.steady]
        ran = [s.counts.run_ns for s in plain if s.counts is not None and s.counts.run_ns]
        if ran and len(ran) == len(plain):
            found[one.of(RecordedHost)[0].rank] = float(median(ran))
    return found


def trued(graph: Graph, runs_ns: Mapping[int, float]) -> Graph:
    """The graph whose ranks work as long in a step as they run in a plain one. Device streams do
    not show in a thread's count: graphs with them stay."""
    if (graph.lanes.kind == LaneKind.STREAM).any():
        return graph
    dur = graph.ops.dur_ns.copy()
    for rank, run_ns in runs_ns.items():
        rows = _work_of(graph, rank)
        for step in np.unique(graph.ops.step[rows]):
            mine = rows[graph.ops.step[rows] == step]
            dur[mine] = _brought(dur[mine], run_ns)
    return replace(graph, ops=replace(graph.ops, dur_ns=dur))


def _work_of(graph: Graph, rank: int) -> Int64:
    """Work on the rank's busiest lane, that of the training loop."""
    ops = graph.ops
    mine = np.flatnonzero(works(graph) & (ops.rank == rank) & (ops.step != NONE) & (ops.dur_ns > 0))
    by_lane = np.bincount(ops.lane[mine], ops.dur_ns[mine], len(graph.lanes))
    busiest: Int64 = mine[ops.lane[mine] == int(by_lane.argmax())]
    return busiest


def _brought(dur: Int64, whole_ns: float) -> Int64:
    """The durations, so that they sum to the whole."""
    first = np.minimum(dur, OP_NS).astype(np.float64)
    surplus = float(dur.sum()) - whole_ns
    if surplus > 0 and first.sum():
        dur = np.rint(dur - first * min(1.0, surplus / first.sum())).astype(np.int64)
    factor = max(LEAST, whole_ns / dur.sum()) if dur.sum() else 1.0
    return np.rint(dur * factor).astype(np.int64)
