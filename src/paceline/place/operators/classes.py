"""From nodes to classes: what must or may stay together becomes one row.

`Classes` are the flat arrays that solvers read: precedence among classes, summed times, and one
hyperedge a producer (its class and its readers' classes), equal ones merged. A set pays the
weight of every hyperedge that it cuts, which is exactly the communication on the original graph.
"""

from collections import defaultdict
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from paceline.place.operators.problem import Floats, Ints, Problem, outgoing

MERGED = 60_000
"""Above so many nodes trivial classes stay: merging them costs more than it saves there."""

NOTHING = 1e-6
"""Times below this count as none where nodes are merged (the published solver's constant)."""


@dataclass(frozen=True, eq=False)
class Classes:
    """Flat arrays in topological order, with the devices; `of_node` leads back to the nodes."""

    of_node: Ints
    accelerator_time: Floats
    cpu_time: Floats
    size: Floats
    supported: NDArray[np.uint8]
    edge_source: NDArray[np.int32]
    edge_target: NDArray[np.int32]
    pin_start: NDArray[np.int32]
    pins: NDArray[np.int32]
    weight: Floats
    accelerators: int
    cpus: int
    memory: float
    max_replicas: int = 1
    sync_cost: float = 0.0
    total: bool = False  # minimise the sum of loads instead of the largest

    def __len__(self) -> int:
        return len(self.size)

    def hyperedges(self) -> list[tuple[tuple[int, ...], float]]:
        """(classes, weight) of each."""
        ends = zip(self.pin_start[:-1].tolist(), self.pin_start[1:].tolist())
        pins = self.pins.tolist()
        return [(tuple(pins[a:b]), w) for (a, b), w in zip(ends, self.weight.tolist())]


def contiguous_classes(problem: Problem, *, merge_trivial: bool = True) -> Classes:
    """Classes for chains of ideals: colours, strongly connected ones fused, trivial ones merged."""
    label = np.asarray(problem.colour)
    source, target = precedence(problem, label)
    label = _renumber(_components(int(label.max()) + 1, source, target)[label])
    if merge_trivial and len(problem) <= MERGED:
        label = _merge_trivial(problem, label)
    source, target = precedence(problem, label)
    order = _depth_first(int(label.max()) + 1, source, target)
    position = np.empty(len(order), np.int64)
    position[order] = np.arange(len(order))
    return build(problem, position[label], position[source], position[target])


def colour_classes(problem: Problem, *, merge_trivial: bool = True) -> Classes:
    """Classes where sets need not be contiguous: colours, with free appendages merged."""
    label = np.asarray(problem.colour)
    if merge_trivial and len(problem) <= MERGED:
        label = _merge_trivial(problem, label)
    none = np.zeros(0, np.int64)
    return build(problem, label, none, none)


def build(problem: Problem, label: Ints, source: Ints, target: Ints) -> Classes:
    """Sum the columns of `problem` over the classes that `label` gives its nodes."""
    count = int(label.max()) + 1
    supported = np.ones(count, np.uint8)
    supported[label[~problem.supported]] = 0
    pins, weight = _hyperedges(problem, label)
    return Classes(
        of_node=label,
        accelerator_time=_sum(label, problem.accelerator_time, count),
        cpu_time=_sum(label, problem.cpu_time, count),
        size=_sum(label, problem.size, count),
        supported=supported,
        edge_source=source.astype(np.int32),
        edge_target=target.astype(np.int32),
        pin_start=np.cumsum([0, *map(len, pins)]).astype(np.int32),
        pins=np.array([c for p in pins for c in p], np.int32),
        weight=np.array(weight, np.float64),
        accelerators=problem.accelerators,
        cpus=problem.cpus,
        memory=float(problem.memory),
    )


def _sum(label: Ints, column: Floats, count: int) -> Floats:
    return np.bincount(label, column, count).astype(np.float64)


def _hyperedges(problem: Problem, label: Ints) -> tuple[list[tuple[int, ...]], list[float]]:
    """Classes that hold each producer or a reader of it; equal sets share one row."""
    start, after = outgoing(len(problem), problem.source, problem.target)
    readers, starts = label[after].tolist(), start.tolist()
    labels, costs = label.tolist(), problem.cost.tolist()
    found: dict[tuple[int, ...], float] = defaultdict(float)
    for row in np.flatnonzero(problem.cost > 0).tolist():
        pins = {labels[row], *readers[starts[row] : starts[row + 1]]}
        if len(pins) > 1:
            found[tuple(sorted(pins))] += costs[row]
    return list(found), list(found.values())


def precedence(problem: Problem, label: Ints) -> tuple[Ints, Ints]:
    """Edges among classes: forward edges, and mirrored backward edges at classes that have no
    forward node (they take part as if they had one)."""
    has_forward = np.zeros(int(label.max()) + 1, np.bool_)
    has_forward[label[~problem.backward]] = True
    s, t = label[problem.source], label[problem.target]
    backward = problem.backward[problem.source] & problem.backward[problem.target]
    forward = ~(problem.backward[problem.source] | problem.backward[problem.target])
    mirrored = backward & ~(has_forward[s] & has_forward[t])
    edges = np.concatenate(
        [np.stack([s[forward], t[forward]]), np.stack([t[mirrored], s[mirrored]])], axis=1
    )
    count = len(has_forward)
    keys = np.unique(edges[0, edges[0] != edges[1]] * count + edges[1, edges[0] != edges[1]])
    return keys // count, keys % count


def _merge_trivial(problem: Problem, label: Ints) -> Ints:
    """A class of no time whose forward part has one neighbour joins that neighbour: moving it
    there never adds communication. (Its size moves along: a weight travels with its reader.)"""
    count = int(label.max()) + 1
    source, target = precedence(problem, label)
    near: list[set[int]] = [set() for _ in range(count)]
    for a, b in zip(source.tolist(), target.tolist()):
        near[a].add(b)
        near[b].add(a)
    time = np.bincount(label, problem.cpu_time + problem.accelerator_time, count)
    busy = (time >= NOTHING).tolist()
    mixed = problem.backward[problem.source] != problem.backward[problem.target]
    for c in label[problem.source[mixed]].tolist():  # a forward node that a backward one reads
        busy[c] = True
    into = list(range(count))
    waiting = [c for c in range(count) if not busy[c] and len(near[c]) == 1]
    while waiting:
        c = waiting.pop()
        if len(near[c]) != 1:
            continue
        (host,) = near[c]
        into[c] = host
        near[c].clear()
        near[host].discard(c)
        if not busy[host] and len(near[host]) == 1:
            waiting.append(host)
    for c in range(count):
        while into[c] != into[into[c]]:
            into[c] = into[into[c]]
    return _renumber(np.array(into, np.int64)[label])


def _renumber(label: Ints) -> Ints:
    return np.asarray(np.unique(label, return_inverse=True)[1], np.int64).reshape(-1)


def _components(count: int, source: Ints, target: Ints) -> Ints:
    """Strongly connected component of each class (Tarjan, without recursion)."""
    start, after = (column.tolist() for column in outgoing(count, source, target))
    number, low, component = [-1] * count, [0] * count, [-1] * count
    path: list[int] = []
    clock = 0
    for root in range(count):
        if number[root] >= 0:
            continue
        work: list[tuple[int, int]] = [(root, start[root])]
        while work:
            c, begin = work.pop()
            if begin == start[c]:
                number[c] = low[c] = clock
                clock += 1
                path.append(c)
            for at in range(begin, start[c + 1]):
                n = after[at]
                if number[n] < 0:
                    work += [(c, at + 1), (n, start[n])]
                    break
                if component[n] < 0:
                    low[c] = min(low[c], number[n])
            else:
                if low[c] == number[c]:
                    while component[c] < 0:
                        component[path.pop()] = c
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[c])
    return np.array(component, np.int64)


def _depth_first(count: int, source: Ints, target: Ints) -> Ints:
    """A topological order that finishes one branch before it turns to the next."""
    start, after = (column.tolist() for column in outgoing(count, source, target))
    waits = np.bincount(target, minlength=count).tolist()
    stack = [c for c in range(count - 1, -1, -1) if waits[c] == 0]
    order: list[int] = []
    while stack:
        c = stack.pop()
        order.append(c)
        for n in after[start[c] : start[c + 1]]:
            waits[n] -= 1
            if waits[n] == 0:
                stack.append(n)
    return np.array(order, np.int64)


def parts_of(classes: Classes, members: Any) -> Ints:
    """Rows of the nodes in some classes."""
    return np.flatnonzero(np.isin(classes.of_node, np.asarray(list(members), np.int64)))
