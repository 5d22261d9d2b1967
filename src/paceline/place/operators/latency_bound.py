"""What no latency undercuts where an accelerator cannot hold everything.

A piece waits for all its inputs and gives its results out when it ends, so with two nodes it holds
all nodes between them: else it would wait for itself. Take a path p1 .. pm = v and a piece that
holds v; let pi be the first of the path that it holds. Then

- it holds all nodes between pi and v: they must fit, and it takes all their times;
- it holds no ancestor of p(i-1): it pays for p(i-1) and for every result of those ancestors that a
  node between pi and v reads, and begins when p(i-1) has arrived from outside;
- where a reader x of v is outside, so are x's descendants: it pays for every result of those nodes
  that x or a descendant reads.

With `left(v, x)`, the earliest moment at which v's result is there for an x that is elsewhere:

    end on a CPU(v)   >= max over predecessors u of left(u, v), plus v's CPU time
    end in a piece(v) >= max over paths, min over i of left(p(i-1), pi) + paid in + time(pi .. v)
    left(v, x)        >= min(end on a CPU(v), the same with what is paid out to x and beyond)

Every path gives a bound; tried are, for each predecessor of v, it and what held it up most.
"""

from dataclasses import dataclass, field

import numpy as np

from paceline.place.operators.problem import Bools, Floats, Ints, Problem, topological_order
from paceline.place.operators.split import TOLERANCE

MOST_NODES = 1500
"""Dense matrices of n x n; the published graphs of up to 783 nodes take under 2 s."""


def piece_bound(problem: Problem) -> float:
    """No schedule is shorter; 0 where the graph is too large to say."""
    order, stuck = topological_order(len(problem), problem.source, problem.target)
    if len(stuck) or not 0 < len(problem) <= MOST_NODES:
        return 0.0
    walk = _Walk(problem, _Between(problem, order))
    return max(walk.visit(v) for v in order.tolist()) * (1 - 1e-9)


class _Between:
    """What lies between two nodes, and what crosses to it."""

    def __init__(self, problem: Problem, order: Ints) -> None:
        self._source, self._target, self._cost = problem.source, problem.target, problem.cost
        reaches = np.eye(len(problem), dtype=np.bool_)
        for v in order.tolist():
            for u in problem.source[problem.target == v].tolist():
                reaches[:, v] |= reaches[:, u]
        self._after, self._before = reaches, np.ascontiguousarray(reaches.T)
        self.time = _times(problem, reaches)

    def paid_in(self, outside: int, first: int, v: int) -> float:
        """For results of `outside` and its ancestors that nodes between `first` and `v` read."""
        inside = self._after[first] & self._before[v]
        return self._paid(self._before[outside][self._source] & inside[self._target])

    def paid_out(self, first: int, v: int, reader: int) -> float:
        """For results of nodes between `first` and `v` that `reader` or its descendants read."""
        inside = self._after[first] & self._before[v]
        return self._paid(inside[self._source] & self._after[reader][self._target])

    def _paid(self, crosses: Bools) -> float:
        """Each producer once, however many of its edges cross."""
        return float(self._cost[np.unique(self._source[crosses])].sum())


def _times(problem: Problem, reaches: Bools) -> Floats:
    """time[u, v]: accelerator time of all nodes on paths from u to v, both included; infinite where
    no accelerator holds them all."""
    paths = reaches.astype(np.float64)
    size = paths @ (problem.size[:, None] * paths)
    time = paths @ (problem.accelerator_time[:, None] * paths)
    barred = paths @ (_barred(problem)[:, None] * paths) > 0
    time[barred | (size > problem.memory * (1 + TOLERANCE) * (1 + 1e-9))] = np.inf
    return np.asarray(time, np.float64)


def _barred(problem: Problem) -> Bools:
    """Nodes that no accelerator takes, themselves or one of their colour."""
    if not problem.accelerators:
        return np.ones(len(problem), np.bool_)
    unsupported = np.bincount(problem.colour, ~problem.supported) > 0
    return np.asarray(unsupported[problem.colour], np.bool_)


@dataclass
class _Entry:
    """One way into a piece that holds v: at `first`, from `outside` (-1: from nowhere). `end` is
    the least end of v; what is paid in is looked up when it matters."""

    end: float
    first: int
    outside: int
    priced: bool = False
    out: dict[int, float] = field(default_factory=dict)  # paid out, by reader


class _Walk:
    """Least ends, nodes being visited in topological order."""

    def __init__(self, problem: Problem, between: _Between) -> None:
        self._between, self._cost = between, problem.cost.tolist()
        self._before: list[list[int]] = [[] for _ in range(len(problem))]
        self._readers: list[list[int]] = [[] for _ in range(len(problem))]
        for u, v in zip(problem.source.tolist(), problem.target.tolist()):
            self._before[v].append(u)
            self._readers[u].append(v)
        self._left: dict[tuple[int, int], float] = {}
        self._latest = [-1] * len(problem)  # the predecessor whose result is there last
        cpu = problem.cpu_time if problem.cpus else np.full(len(problem), np.inf)
        self._cpu: list[float] = cpu.tolist()

    def visit(self, v: int) -> float:
        """Least end of v, wherever it is."""
        before = self._before[v]
        begins = max((self._left[u, v] for u in before), default=0.0)
        self._latest[v] = max(before, key=lambda u: self._left[u, v], default=-1)
        ways = [self._ways(v, u) for u in before or [-1]]
        on_cpu = begins + self._cpu[v]
        for x in self._readers[v]:
            self._left[v, x] = min(on_cpu, max(self._least(v, way, x) for way in ways))
        return min(on_cpu, max(self._least(v, way) for way in ways))

    def _ways(self, v: int, u: int) -> list[_Entry]:
        """All entries on the path to v through its predecessor u, the one that ends first first."""
        times, first, outside, found = self._between.time[:, v], v, u, []
        while (time := float(times[first])) < float("inf"):
            if outside < 0:
                found.append(_Entry(time, first, outside, priced=True))
                break
            end = self._left[outside, first] + self._cost[outside] + time
            found.append(_Entry(end, first, outside))
            first, outside = outside, self._latest[outside]
        return sorted(found, key=lambda entry: entry.end)

    def _least(self, v: int, ways: list[_Entry], reader: int = -1) -> float:
        """Least end of v in a piece, or moment at which its result has left it for `reader`."""
        least, own = float("inf"), self._cost[v] if reader >= 0 else 0.0
        for entry in ways:
            if entry.end + own < least:
                self._price(v, entry)
                least = min(least, entry.end + self._out(v, entry, reader))
        return least

    def _price(self, v: int, entry: _Entry) -> None:
        if not entry.priced:
            paid = self._between.paid_in(entry.outside, entry.first, v)
            entry.end += paid - self._cost[entry.outside]
            entry.priced = True

    def _out(self, v: int, entry: _Entry, reader: int) -> float:
        if reader < 0:
            return 0.0
        if reader not in entry.out:
            entry.out[reader] = self._between.paid_out(entry.first, v, reader)
        return entry.out[reader]
