"""What others would do: the splits that an answer is shown beside.

linearised     the exact program on one depth-first order
greedy         topological order, each accelerator up to its even share
pipedream      branching regions fused until the graph is a chain, then exact on that chain
partition      balanced k-way cut of the undirected graph, direction and memory ignored
local search   single moves from the greedy split
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from paceline.place.operators.classes import (
    Classes,
    build,
    colour_classes,
    contiguous_classes,
)
from paceline.place.operators.contiguous import linearised, split_of_chain
from paceline.place.operators.greedy import greedy_share
from paceline.place.operators.ideals import Limits
from paceline.place.operators.loads import Loads, assignment_of, split_of
from paceline.place.operators.local_search import improve
from paceline.place.operators.problem import Ints, PlacementError, Problem
from paceline.place.operators.split import Split, confirm

SEARCH_SECONDS = 2.0


@dataclass(frozen=True)
class Baseline:
    """`max_load` is None where the method found no split; `valid` is False where it broke a
    limit (the graph partitioner knows none)."""

    name: str
    max_load: float | None
    valid: bool


def baselines(problem: Problem, limits: Limits | None = None) -> list[Baseline]:
    """All methods on one problem."""
    limits = limits or Limits()
    return [_measured(problem, name, method(problem, limits)) for name, method in METHODS.items()]


def expert(problem: Problem, split: Split) -> Baseline:
    """A split that a person made."""
    return _measured(problem, "expert", split)


def _measured(problem: Problem, name: str, split: Split | None) -> Baseline:
    if split is None:
        return Baseline(name, None, False)
    try:
        confirm(problem, split)
    except PlacementError:
        return Baseline(name, split.max_load(problem), False)
    return Baseline(name, split.max_load(problem), True)


def _linearised(problem: Problem, limits: Limits) -> Split | None:
    joined, chain = linearised(problem, contiguous_classes(problem), limits)
    return split_of_chain(joined, chain) if chain.stages else None


def _greedy(problem: Problem, limits: Limits) -> Split | None:
    return greedy_share(problem)


def _pipedream(problem: Problem, limits: Limits) -> Split | None:
    classes = contiguous_classes(problem)
    block = single_tensor_blocks(classes)
    chain = np.arange(int(block.max()))
    fused = build(problem, block[classes.of_node], chain, chain + 1)
    joined, found = linearised(problem, fused, limits)
    return split_of_chain(joined, found) if found.stages else None


def single_tensor_blocks(classes: Classes) -> Ints:
    """Block of each class: cut only where all edges across come from one class, the last one
    before the cut; what lies between such places is not a chain and is fused. Edges of classes
    without work (inputs, masks) do not count: every stage could load those itself."""
    reach = np.arange(len(classes))
    works = classes.accelerator_time[classes.edge_source] > 0
    np.maximum.at(reach, classes.edge_source[works], classes.edge_target[works])
    furthest = np.maximum.accumulate(reach)
    before = np.concatenate([[-1], furthest[:-1]])
    position = np.arange(len(classes))
    cut_after = (before <= position) & (furthest > position)
    ends_alone = furthest <= position  # nothing crosses at all
    starts = np.concatenate([[False], (cut_after | ends_alone)[:-1]])
    return np.cumsum(starts).astype(np.int64)


def _partition(problem: Problem, limits: Limits) -> Split | None:
    if problem.accelerators == 0:
        return None
    classes = replace(colour_classes(problem), cpus=0)
    return split_of(classes, balanced_cut(classes))


def balanced_cut(classes: Classes, slack: float = 0.05, passes: int = 20) -> list[int]:
    """Even slices of the order, then moves that lower the weight of cut hyperedges and keep
    every part within `slack` of its even share (or lower its excess)."""
    parts = classes.accelerators
    work = classes.accelerator_time
    share = float(work.sum()) / parts
    at: list[int] = (
        np.minimum(np.cumsum(work) / max(share, 1e-300), parts - 1e-9).astype(int).tolist()
    )
    filled = np.bincount(at, work, parts)
    edges = classes.hyperedges()
    touch: list[list[int]] = [[] for _ in range(len(classes))]
    for e, (pins, _) in enumerate(edges):
        for c in pins:
            touch[c].append(e)
    for _ in range(passes):
        moved = False
        for c in range(len(classes)):
            room = {p for p in range(parts) if filled[p] + work[c] <= share * (1 + slack)}
            spread = {p: _cut_weight(edges, touch[c], at, c, p) for p in room | {at[c]}}
            best = min(spread, key=lambda p: (spread[p], p != at[c]))
            if spread[best] < spread[at[c]] - 1e-12:
                filled[at[c]] -= work[c]
                filled[best] += work[c]
                at[c], moved = best, True
        if not moved:
            break
    return at


def _cut_weight(
    edges: list[tuple[tuple[int, ...], float]], touched: list[int], at: list[int], c: int, p: int
) -> float:
    """Weight of the hyperedges of `c` that would be cut with `c` in part `p`."""
    return sum(
        edges[e][1] for e in touched if any(at[other] != p for other in edges[e][0] if other != c)
    )


def _local_search(problem: Problem, limits: Limits) -> Split | None:
    start = greedy_share(problem)
    if start is None:
        return None
    classes = colour_classes(problem)
    assignment = assignment_of(classes, start)
    if not Loads(classes, assignment).valid():
        return start
    return split_of(classes, improve(classes, assignment, SEARCH_SECONDS))


METHODS: dict[str, Callable[[Problem, Limits], Split | None]] = {
    "linearised": _linearised,
    "greedy": _greedy,
    "pipedream": _pipedream,
    "partition": _partition,
    "local search": _local_search,
}
