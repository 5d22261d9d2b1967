"""`Split`: which nodes run on which device, and what that costs on the ORIGINAL graph.

This file is the definition of load; every solver's answer is confirmed by it.
"""

from dataclasses import dataclass

import numpy as np

from paceline.place.operators.problem import Bools, Ints, PlacementError, Problem

TOLERANCE = 1e-9
"""Relative slack of sums taken in different orders."""


@dataclass(frozen=True, eq=False)
class PlacedNodes:
    """The nodes of one device, or of `replicas` accelerators that take samples in turn."""

    on_cpu: bool
    rows: Ints
    replicas: int = 1


@dataclass(frozen=True, eq=False)
class Split:
    """One part a device in use."""

    parts: tuple[PlacedNodes, ...]
    sync_cost: float = 0.0  # time to move one unit of size once, for replicated parts

    def device(self, problem: Problem) -> Ints:
        """Index of each node's part."""
        found = np.full(len(problem), -1, np.int64)
        for index, part in enumerate(self.parts):
            found[part.rows] = index
        return found

    def loads(self, problem: Problem) -> list[float]:
        """Time of each part for one sample of a full pipeline."""
        return [self._load(problem, part) for part in self.parts]

    def max_load(self, problem: Problem) -> float:
        return max(self.loads(problem))

    def _load(self, problem: Problem, part: PlacedNodes) -> float:
        if part.on_cpu:
            return float(problem.cpu_time[part.rows].sum())
        inside = np.zeros(len(problem), np.bool_)
        inside[part.rows] = True
        load = float(problem.accelerator_time[part.rows].sum()) + communication(problem, inside)
        shared = 4 * (part.replicas - 1) / part.replicas * self.sync_cost
        return (load + shared * float(problem.size[part.rows].sum())) / part.replicas


def communication(problem: Problem, inside: Bools) -> float:
    """What an accelerator that holds `inside` pays: the cost of every node that has an edge
    across the border, in either direction, once."""
    crosses = inside[problem.source] != inside[problem.target]
    return float(problem.cost[np.unique(problem.source[crosses])].sum())


def confirm(problem: Problem, split: Split) -> Split:
    """The split itself, if it keeps every rule; an error that names the broken one otherwise."""
    rows = np.concatenate([part.rows for part in split.parts])
    if len(rows) != len(problem) or len(np.unique(rows)) != len(problem):
        raise PlacementError("the split does not place every node exactly once")
    device = split.device(problem)
    first = np.zeros(int(problem.colour.max()) + 1, np.int64)
    first[problem.colour] = device
    apart = np.flatnonzero(first[problem.colour] != device)
    if len(apart):
        raise PlacementError(f"{problem.name(apart[0])} is not with the others of its colour")
    _confirm_devices(problem, split)
    return split


def _confirm_devices(problem: Problem, split: Split) -> None:
    used = sum(part.replicas for part in split.parts if not part.on_cpu)
    cpus = sum(part.on_cpu for part in split.parts)
    if used > problem.accelerators or cpus > problem.cpus:
        raise PlacementError(
            f"the split uses {used} accelerators and {cpus} CPUs; "
            f"there are {problem.accelerators} and {problem.cpus}"
        )
    for part in split.parts:
        if part.on_cpu:
            continue
        size = float(problem.size[part.rows].sum())
        if size > problem.memory * (1 + TOLERANCE):
            raise PlacementError(
                f"an accelerator would hold {size:.6g}; its memory is {problem.memory:.6g}"
            )
        if not problem.supported[part.rows].all():
            row = part.rows[~problem.supported[part.rows]][0]
            raise PlacementError(f"{problem.name(row)} is not supported on an accelerator")
