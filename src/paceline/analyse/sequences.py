"""Sequences of kernels that recur under an operator or a layer, and what fusing them would bring.

The gain is predicted: in the graph of all ranks the sequence becomes its longest kernel, the other
kernels and their launches take no time, and the step is replayed. That is a bound for operators
that read and write the same tensors (the fused kernel then moves no more bytes than the longest).
Wrong where the kernels of a sequence read different tensors, or are limited by arithmetic.
"""

from collections import defaultdict
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from paceline.analyse.lanes import working_lanes
from paceline.analyse.operators import operators_of
from paceline.graph import NONE, DepKind, OpKind
from paceline.graph.graph import Graph, Int64
from paceline.graph.links import Links
from paceline.replay import Timeline, replay

LONGEST: Final = 5
LEAST_TIMES: Final = 2
AS_OFTEN: Final = 1.1
Run = tuple[int, ...]  # ops that follow one another


@dataclass(frozen=True)
class Sequence:
    """Kernels that follow one another under one operator, as often as they do on all ranks."""

    under: str  # the operator; on a CPU the layer
    names: tuple[str, ...]
    times: int
    total_ns: int
    gain_ns: float  # of a step, were each such sequence one kernel


def sequences_of(timeline: Timeline, top: int = 8) -> tuple[Sequence, ...]:
    """The `top` by time, replayed one after the other; most gain first. A sequence that is part of
    a longer one about as frequent is left out."""
    graph = timeline.graph
    runs = _frequent(graph)
    total = {key: int(sum(graph.ops.dur_ns[list(run)].sum() for run in found))
             for key, found in runs.items()}  # fmt: skip
    chosen = sorted(_whole(runs), key=lambda key: -total[key])[:top]
    steps = max(1, len(np.unique(graph.ops.step[graph.ops.step != NONE])))
    found = [
        Sequence(
            graph.text(key[0]),
            tuple(graph.text(name) for name in key[1:]),
            len(runs[key]),
            total[key],
            (timeline.step_ns - replay(fused(graph, runs[key])).step_ns) / steps,
        )
        for key in chosen
    ]
    return tuple(sorted(found, key=lambda each: -each.gain_ns))


def fused(graph: Graph, runs: list[Run]) -> Graph:
    """Each run as long as its longest op; the other ops and the calls that launched them take no
    time. Runs that overlap are fused where they come first."""
    dur = graph.ops.dur_ns.copy()
    gone = np.zeros(len(graph), np.bool_)
    used: set[int] = set()
    for run in runs:
        if used.isdisjoint(run):
            used.update(run)
            dur[run[0]] = graph.ops.dur_ns[list(run)].max()
            gone[list(run[1:])] = True
    links = Links.of(graph)
    launched = (links.kind == DepKind.LAUNCH) & gone[links.op]
    dur[gone] = 0
    dur[links.src[launched]] = 0
    return replace(graph, ops=replace(graph.ops, dur_ns=dur))


def _frequent(graph: Graph) -> dict[Run, list[Run]]:
    """Runs of 2 to `LONGEST` kernels by what they are under and their names."""
    under = _under(graph)
    found: dict[Run, list[Run]] = defaultdict(list)
    for lane in working_lanes(graph):
        ops = graph.ops
        rows = np.flatnonzero((ops.lane == lane) & (ops.kind == OpKind.COMPUTE))
        for part in _parts(graph, rows, under):
            names = ops.name[part].tolist()
            home, members = int(under[part[0]]), part.tolist()
            for length in range(2, min(LONGEST, len(part)) + 1):
                for at in range(len(part) - length + 1):
                    key = (home, *names[at : at + length])
                    found[key].append(tuple(members[at : at + length]))
    return {key: runs for key, runs in found.items() if len(runs) >= LEAST_TIMES}


def _under(graph: Graph) -> Int64:
    """What an op is part of: its operator where that is not itself, else its layer."""
    operator = operators_of(graph)
    found: Int64 = np.where(operator != graph.ops.name, operator, graph.ops.layer)
    return found.astype(np.int64)


def _parts(graph: Graph, rows: Int64, under: Int64) -> list[Int64]:
    """Stretches of a lane under one thing, in one phase of one step."""
    if not len(rows):
        return []
    ops = graph.ops
    new = np.zeros(len(rows) - 1, np.bool_)
    for column in (under, ops.phase, ops.step):
        new |= column[rows[1:]] != column[rows[:-1]]
    return [p for p in np.split(rows, np.flatnonzero(new) + 1) if len(p) > 1 and under[p[0]] >= 0]


def _whole(runs: dict[Run, list[Run]]) -> list[Run]:
    """Those that are no part of a longer one that comes as often."""
    covered: set[Run] = set()
    for key, found in runs.items():
        for part in ((key[0], *key[1:-1]), (key[0], *key[2:])):
            if len(part) > 2 and len(runs.get(part, ())) <= AS_OFTEN * len(found):
                covered.add(part)
    return [key for key in runs if key not in covered]
