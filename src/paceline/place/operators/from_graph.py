"""From a recorded graph to a placement problem: one rank's forward and backward ops of one step.

Times are the recorded durations in milliseconds, alike on every accelerator; an op's result costs
its bytes over the link's rate, and what is not known of them is said (`place.output_sizes`); ops of
one layer share a colour, so that a layer's backward part stays with its forward part. Where an op
has no recorded input, the op before it on its lane is taken for it.
"""

from dataclasses import dataclass

import numpy as np

from paceline.graph import Graph, MemoryCategory, OpKind, Phase
from paceline.place.operators.problem import Bools, Floats, Ints, PlacementError, Problem, check
from paceline.place.output_sizes import OutputSizes, output_sizes

NS_PER_MS = 1e6
HELD = (MemoryCategory.WEIGHTS, MemoryCategory.GRADIENTS, MemoryCategory.OPTIMIZER,
        MemoryCategory.ACTIVATIONS)  # fmt: skip
"""What counts as an op's size: memory that stays from its forward to its backward part."""


@dataclass(frozen=True)
class Target:
    """What to place on, and which rank and step to place."""

    accelerators: int
    bytes_per_s: float
    memory_bytes: float = float("inf")
    rank: int | None = None  # None: the first
    step: int | None = None  # None: the first that has backward ops


@dataclass(frozen=True, eq=False)
class Drawn:
    """A problem drawn from a graph, what is known of its results' sizes, and what must be said."""

    problem: Problem
    results: dict[str, int]
    notes: tuple[str, ...]


def problem_from(graph: Graph, target: Target) -> Problem:
    """The placement problem of one rank and step."""
    return drawn_from(graph, target).problem


def drawn_from(graph: Graph, target: Target) -> Drawn:
    """The same with what is not known of it."""
    if target.bytes_per_s <= 0:
        raise PlacementError(f"a link of {target.bytes_per_s} bytes/s; it must be above 0")
    kept, results = _chosen(graph, target), output_sizes(graph)
    problem = _problem(graph, target, kept, results)
    read = kept[np.unique(problem.source)]
    return Drawn(problem, results.counts(read), results.notes(read, "ops that others read"))


def _problem(graph: Graph, target: Target, kept: Ints, results: OutputSizes) -> Problem:
    row = np.full(len(graph), -1, np.int64)
    row[kept] = np.arange(len(kept))
    ops = graph.ops
    backward = ops.phase[kept] == Phase.BACKWARD
    source, target_rows = _edges(graph, kept, row, backward)
    times = np.maximum(ops.dur_ns[kept], 0) / NS_PER_MS
    return check(
        Problem(
            ids=kept,
            supported=np.ones(len(kept), np.bool_),
            cpu_time=times.copy(),
            accelerator_time=times,
            size=_sizes(graph, row, len(kept)),
            backward=backward,
            colour=_colours(graph, kept),
            cost=results.size_bytes[kept] / target.bytes_per_s * 1e3,
            source=source,
            target=target_rows,
            accelerators=target.accelerators,
            cpus=0,
            memory=target.memory_bytes,
            names=tuple(graph.text(int(n)) for n in ops.name[kept]),
        )
    )


def _chosen(graph: Graph, target: Target) -> Ints:
    """Ids of the compute ops of the rank and step."""
    ops = graph.ops
    rank = graph.ranks[0] if target.rank is None and graph.ranks else target.rank
    if rank not in graph.ranks:
        raise PlacementError(
            f"rank {rank} is not in the graph; it has ranks {', '.join(map(str, graph.ranks))}"
        )
    mine = (ops.rank == rank) & (ops.kind == OpKind.COMPUTE)
    training = mine & ((ops.phase == Phase.FORWARD) | (ops.phase == Phase.BACKWARD))
    mine = training if training.any() else mine
    if not mine.any():
        raise PlacementError(f"rank {rank} has no compute ops to place")
    steps = np.unique(ops.step[mine & (ops.phase == Phase.BACKWARD)])
    steps = steps if len(steps) else np.unique(ops.step[mine])
    step = int(steps[0]) if target.step is None else target.step
    chosen = np.flatnonzero(mine & (ops.step == step)).astype(np.int64)
    if not len(chosen):
        raise PlacementError(f"rank {rank} has no compute ops in step {step}")
    return chosen


def _edges(graph: Graph, kept: Ints, row: Ints, backward: Bools) -> tuple[Ints, Ints]:
    """Producer and reader rows; ops in between (launches, waits, copies) are looked through."""
    found: set[tuple[int, int]] = set()
    last: dict[tuple[int, bool], int] = {}
    for here, op in enumerate(kept.tolist()):
        inputs = _inputs(graph, op, row)
        lane = (int(graph.ops.lane[op]), bool(backward[here]))
        if not inputs and lane in last:
            inputs = {last[lane]}
        last[lane] = here
        found |= {(i, here) for i in inputs if backward[here] or not backward[i]}
    edges = np.array(sorted(found), np.int64).reshape(-1, 2)
    return edges[:, 0].copy(), edges[:, 1].copy()


def _inputs(graph: Graph, op: int, row: Ints) -> set[int]:
    """Rows of the nearest kept ops that `op` waits for."""
    found: set[int] = set()
    seen, waiting = {op}, graph.deps.of(op).tolist()
    while waiting:
        before = waiting.pop()
        if before in seen:
            continue
        seen.add(before)
        if row[before] >= 0:
            found.add(int(row[before]))
        elif graph.ops.step[before] == graph.ops.step[op]:
            waiting += graph.deps.of(before).tolist()
    return found


def _sizes(graph: Graph, row: Ints, count: int) -> Floats:
    memory = graph.memory
    counted = (memory.delta_bytes > 0) & np.isin(memory.category, HELD) & (row[memory.op] >= 0)
    rows, bytes_held = row[memory.op[counted]], memory.delta_bytes[counted]
    return np.bincount(rows, bytes_held.astype(np.float64), count).astype(np.float64)


def _colours(graph: Graph, kept: Ints) -> Ints:
    """One colour a layer; an op without a layer has its own."""
    layers = graph.ops.layer[kept].astype(np.int64)
    alone = layers < 0
    layers[alone] = len(graph.names) + np.arange(int(alone.sum()))
    return np.asarray(np.unique(layers, return_inverse=True)[1], np.int64).reshape(-1)
