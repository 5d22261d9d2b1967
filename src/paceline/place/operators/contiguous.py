"""Least maximum load with contiguous sets, exactly: dynamic programming over ideals.

A split is a chain of ideals (predecessor-closed sets) of the forward graph; each difference is
one device's set and takes its backward nodes along by colour. The program starts from the answer
of its linearised form, which it has to beat; where there are too many ideals, or no time, that
answer stands, with the bound that was proven.
"""

import time
from dataclasses import dataclass, replace

import numpy as np

from paceline.place.operators.answer import Answer, Goal, Outcome, infeasible
from paceline.place.operators.bounds import infeasibility, max_load_bound
from paceline.place.operators.classes import (
    MERGED,
    Classes,
    build,
    contiguous_classes,
    parts_of,
    precedence,
)
from paceline.place.operators.ideals import Chain, Limits, Status, solve
from paceline.place.operators.problem import Ints, Problem, topological_order
from paceline.place.operators.split import PlacedNodes, Split, confirm

BLOCKS = 1200
"""A linearised chain is joined to at most so many blocks: its cost grows with their square."""

LARGE = MERGED
"""Above so many nodes only the linearised program is tried."""


@dataclass(frozen=True)
class Replication:
    """Let a set run on several accelerators that take samples in turn; after each sample its
    weights are synchronised at 4 (r - 1) / r times their size (PipeDream's formula)."""

    most: int
    size_per_time: float  # memory units that one accelerator sends in one unit of time


def place_contiguous(
    problem: Problem, limits: Limits | None = None, replication: Replication | None = None
) -> Answer:
    """The exact optimum, or the best split found with a proven bound.

    Merging trivial classes is exact as long as memory leaves room: a merged weight travels with
    its reader. Where memory may bind, the merged program without the limit gives the bound; what
    it does not prove is solved again without merging.
    """
    limits, began = limits or Limits(), time.perf_counter()
    problem = problem if replication else problem.with_useful_devices()
    answer = _place(problem, contiguous_classes(problem), limits, replication)
    if not _merging_binds_memory(problem) or _proven(problem, answer, limits, replication):
        return answer
    left = replace(limits, seconds=limits.seconds - (time.perf_counter() - began))
    apart = contiguous_classes(problem, merge_trivial=False)
    again = _place(problem, apart, left, replication)
    best = again if again.split is None or again.value <= answer.value else answer
    if answer.split is not None and again.split is None:
        best = replace(answer, lower_bound=min(again.lower_bound, answer.value), notes=again.notes)
    return replace(best, seconds=time.perf_counter() - began)


def _merging_binds_memory(problem: Problem) -> bool:
    """Did merging trivial classes move weights that the memory limit may count?"""
    if not problem.memory < problem.size.sum():
        return False
    merged = contiguous_classes(problem)
    apart = contiguous_classes(problem, merge_trivial=False)
    return len(merged) < len(apart) and sorted(merged.size[merged.size > 0].tolist()) != sorted(
        apart.size[apart.size > 0].tolist()
    )


def _proven(
    problem: Problem, answer: Answer, limits: Limits, replication: Replication | None
) -> bool:
    """Is there nothing better even where memory has no limit (there merging is exact)?"""
    if answer.outcome is not Outcome.OPTIMAL:
        return False
    classes = _replicated(contiguous_classes(problem), replication)
    free = solve(replace(classes, memory=np.inf), 0.0, answer.value * (1 - 1e-9), limits)
    return free.status is Status.NOTHING_BETTER


def _place(
    problem: Problem, plain: Classes, limits: Limits, replication: Replication | None
) -> Answer:
    began = time.perf_counter()
    large = len(problem) > LARGE
    classes = _replicated(plain, replication)
    reasons = infeasibility(classes)
    if reasons:
        return infeasible(Goal.MAX_LOAD, "ideals", reasons)
    bound = max_load_bound(classes)
    joined, start = linearised(problem, classes, limits)
    if large:
        note = f"{len(problem)} nodes: above {LARGE} only the linearised program is tried"
        return _answer(problem, joined, start, bound, began, (note, *_blocks_note(joined, classes)))
    left = replace(limits, seconds=limits.seconds - (time.perf_counter() - began))
    exact = solve(classes, bound, start.value if start.stages else _ceiling(classes), left)
    if exact.status is Status.NOTHING_BETTER and not start.stages:
        return infeasible(Goal.MAX_LOAD, "ideals", (_NO_CHAIN,))
    notes = _notes(exact, limits)
    if exact.stages:
        return _answer(problem, classes, exact, exact.lower_bound, began, notes)
    start = replace(start, ideals=exact.ideals, pairs=exact.pairs)
    if exact.status is Status.NOTHING_BETTER:
        return _answer(problem, joined, start, start.value, began, notes)
    return _answer(problem, joined, start, exact.lower_bound, began, notes)


def linearised(problem: Problem, classes: Classes, limits: Limits) -> tuple[Classes, Chain]:
    """The program on one fixed order of the classes: fast, and an upper bound."""
    block = _blocks(classes)
    count = int(block.max()) + 1
    chain = np.arange(count - 1)
    joined = replace(
        build(problem, block[classes.of_node], chain, chain + 1),
        max_replicas=classes.max_replicas,
        sync_cost=classes.sync_cost,
        total=classes.total,
    )
    return joined, solve(joined, 0.0, _ceiling(joined), limits)


def _ceiling(classes: Classes) -> float:
    """More than any device's load can be."""
    everything = classes.cpu_time.sum() + classes.accelerator_time.sum() + classes.weight.sum()
    sync = 4 * classes.sync_cost * classes.size.sum() if classes.max_replicas > 1 else 0.0
    return 2 * float(everything + sync) + 1


def is_contiguous(problem: Problem, split: Split) -> bool:
    """Can the parts be put in one order so that no class precedes one of an earlier part?"""
    colour = np.asarray(problem.colour)
    device = np.zeros(int(colour.max()) + 1, np.int64)
    device[colour] = split.device(problem)
    source, target = (device[ends] for ends in precedence(problem, colour))
    apart = source != target
    _, stuck = topological_order(len(split.parts), source[apart], target[apart])
    return len(stuck) == 0


def split_of_chain(classes: Classes, chain: Chain) -> Split:
    """The chain's sets as nodes of the problem."""
    parts = (PlacedNodes(s.on_cpu, parts_of(classes, s.classes), s.replicas) for s in chain.stages)
    return Split(tuple(parts), classes.sync_cost)


def _blocks(classes: Classes) -> Ints:
    """Block of each class: itself, or runs of about equal work where there are too many."""
    if len(classes) <= BLOCKS:
        return np.arange(len(classes))
    work = np.cumsum(classes.accelerator_time + 1e-9 + classes.cpu_time * 1e-3)
    at = (work / work[-1] * (BLOCKS - 1)).astype(np.int64)
    return np.asarray(np.unique(at, return_inverse=True)[1], np.int64)


def _replicated(classes: Classes, replication: Replication | None) -> Classes:
    if replication is None:
        return classes
    return replace(classes, max_replicas=replication.most, sync_cost=1 / replication.size_per_time)


def _answer(
    problem: Problem,
    classes: Classes,
    chain: Chain,
    bound: float,
    began: float,
    notes: tuple[str, ...],
) -> Answer:
    if not chain.stages:
        seconds = time.perf_counter() - began
        never = float("inf")
        return Answer(Goal.MAX_LOAD, Outcome.NOTHING, "ideals", never, bound, seconds, None, notes)
    split = confirm(problem, split_of_chain(classes, chain))
    value = split.max_load(problem)
    optimal = value <= bound * (1 + 1e-9)
    return Answer(
        goal=Goal.MAX_LOAD,
        outcome=Outcome.OPTIMAL if optimal else Outcome.FEASIBLE,
        method="ideals" if optimal else "linearised ideals",
        value=value,
        lower_bound=min(bound, value),
        seconds=time.perf_counter() - began,
        split=split,
        notes=notes,
        ideals=chain.ideals,
        pairs=chain.pairs,
    )


_NO_CHAIN = (
    "no chain of contiguous sets keeps the memory limit. "
    "Give more memory, more accelerators or a CPU, or try --noncontiguous."
)


def _notes(chain: Chain, limits: Limits) -> tuple[str, ...]:
    if chain.status is Status.TOO_MANY_IDEALS:
        return (
            f"more than {limits.ideals} ideals: the exact program was not run; this is the "
            "linearised one, with a combinatorial bound. Raise --max-ideals where memory allows.",
        )
    if chain.status is Status.OUT_OF_TIME:
        return (f"the limit of {limits.seconds:g} s was reached; raise --time-limit",)
    return ()


def _blocks_note(joined: Classes, classes: Classes) -> tuple[str, ...]:
    if len(joined) == len(classes):
        return ()
    return (f"{len(classes)} groups of nodes were joined to {len(joined)} blocks of equal work",)
