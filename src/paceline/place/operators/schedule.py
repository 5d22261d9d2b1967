"""`PieceSchedule`: pieces of accelerators and CPU nodes, and when one sample is through.

A CPU node starts when its inputs are there; CPUs are plenty. A piece starts when all its inputs
are there and the accelerator's earlier pieces have ended; it lasts its accelerator times, plus
the cost of every result that it takes in or gives out.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from paceline.place.operators.problem import Floats, Ints, Problem, outgoing, topological_order
from paceline.place.operators.split import TOLERANCE, PlacedNodes, Split


@dataclass(frozen=True, eq=False)
class PieceSchedule:
    """`pieces[a]` are the node rows of accelerator a's pieces, in the order they run; all other
    nodes are on CPUs."""

    problem: Problem
    pieces: tuple[tuple[Ints, ...], ...]

    @cached_property
    def split(self) -> Split:
        """The same as sets of devices."""
        parts = [PlacedNodes(False, np.sort(np.concatenate(own))) for own in self.pieces if own]
        placed = np.concatenate([np.zeros(0, np.int64), *(part.rows for part in parts)])
        cpu = np.setdiff1d(np.arange(len(self.problem)), placed)
        return Split((*parts, PlacedNodes(True, cpu)) if len(cpu) else tuple(parts))

    @cached_property
    def latency(self) -> float:
        """When the last node has ended; infinite where pieces wait for each other."""
        return _finish(self)


def of_split(problem: Problem, split: Split) -> PieceSchedule:
    """A split as a schedule: every accelerator's set is one piece."""
    return PieceSchedule(problem, tuple((part.rows,) for part in split.parts if not part.on_cpu))


def _finish(schedule: PieceSchedule) -> float:
    """Longest path through a graph of events: CPU nodes and pieces are its vertices."""
    problem, count = schedule.problem, len(schedule.problem)
    vertex = np.arange(count)
    time = problem.cpu_time.tolist()
    queue: list[tuple[int, int]] = []
    for own in schedule.pieces:
        for at, rows in enumerate(own):
            vertex[rows] = len(time)
            time.append(_piece_time(problem, rows))
            if at:
                queue.append((len(time) - 2, len(time) - 1))
    a, b = vertex[problem.source], vertex[problem.target]
    a, b = a[a != b], b[a != b]
    source = np.concatenate([a, np.array([q[0] for q in queue], np.int64)])
    target = np.concatenate([b, np.array([q[1] for q in queue], np.int64)])
    used = np.zeros(len(time), np.bool_)
    used[vertex] = True
    return _longest_path(np.where(used, time, 0.0), source, target)


def _piece_time(problem: Problem, rows: Ints) -> float:
    inside = np.zeros(len(problem), np.bool_)
    inside[rows] = True
    crosses = inside[problem.source] != inside[problem.target]
    paid = np.unique(problem.source[crosses])
    return float(problem.accelerator_time[rows].sum() + problem.cost[paid].sum())


def _longest_path(time: Floats, source: Ints, target: Ints) -> float:
    order, stuck = topological_order(len(time), source, target)
    if len(stuck):
        return float("inf")
    start, after = (column.tolist() for column in outgoing(len(time), source, target))
    ready, lasts = [0.0] * len(time), time.tolist()
    last = 0.0
    for v in order.tolist():
        end = ready[v] + lasts[v]
        last = max(last, end)
        for n in after[start[v] : start[v + 1]]:
            ready[n] = max(ready[n], end)
    return last


def critical_path(problem: Problem) -> float:
    """No schedule is shorter. Along every path each node is on a CPU or on an accelerator; between
    the two a result is paid once, and twice between nodes whose colours no accelerator can hold
    together. `end[v]` is the least end of v in either place, over the worst path to v."""
    size = np.bincount(problem.colour, problem.size)[problem.colour]
    alone = np.bincount(problem.colour, ~problem.supported)[problem.colour] > 0
    room = problem.memory * (1 + TOLERANCE)
    barred = alone | (size > room) | (problem.accelerators == 0)
    cpu = problem.cpu_time if problem.cpus else np.full(len(problem), np.inf)
    accelerator = np.where(barred, np.inf, problem.accelerator_time)
    apart = (problem.colour[problem.source] != problem.colour[problem.target]) & (
        size[problem.source] + size[problem.target] > room
    )
    order, _ = topological_order(len(problem), problem.source, problem.target)
    edges = np.argsort(problem.source, kind="stable")
    start, _ = outgoing(len(problem), problem.source, problem.target)
    readers, split = problem.target[edges].tolist(), apart[edges].tolist()
    on_cpu, on_accelerator = [0.0] * len(problem), [0.0] * len(problem)
    starts, costs = start.tolist(), problem.cost.tolist()
    times = list(zip(cpu.tolist(), accelerator.tolist()))
    for u in order.tolist():
        on_cpu[u] += times[u][0]
        on_accelerator[u] += times[u][1]
        c, a, cost = on_cpu[u], on_accelerator[u], costs[u]
        for e in range(starts[u], starts[u + 1]):
            v = readers[e]
            on_cpu[v] = max(on_cpu[v], min(c, a + cost))
            on_accelerator[v] = max(
                on_accelerator[v], min(c + cost, a + 2 * cost if split[e] else a)
            )
    return max(map(min, zip(on_cpu, on_accelerator)))
