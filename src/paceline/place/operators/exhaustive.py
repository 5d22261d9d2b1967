"""Every way to place a small graph, tried one by one: what the solvers are checked against."""

from collections.abc import Iterator
from itertools import product

import numpy as np

from paceline.place.operators.contiguous import is_contiguous
from paceline.place.operators.problem import PlacementError, Problem
from paceline.place.operators.schedule import PieceSchedule
from paceline.place.operators.split import PlacedNodes, Split, confirm


def splits(problem: Problem) -> Iterator[Split]:
    """All valid splits with whole colours."""
    devices = problem.accelerators + problem.cpus
    for at in product(range(devices), repeat=int(problem.colour.max()) + 1):
        device = np.array(at)[problem.colour]
        parts = [
            PlacedNodes(d >= problem.accelerators, np.flatnonzero(device == d))
            for d in sorted(set(at))
        ]
        try:
            yield confirm(problem, Split(tuple(parts)))
        except PlacementError:
            continue


def least_max_load(problem: Problem, *, contiguous: bool) -> float | None:
    """The least maximum load of all valid splits; None where there is none."""
    loads = [
        split.max_load(problem)
        for split in splits(problem)
        if not contiguous or is_contiguous(problem, split)
    ]
    return min(loads, default=None)


def least_latency(problem: Problem, pieces: int) -> float | None:
    """The least latency over every way to give nodes to ordered pieces and CPUs."""
    slots = problem.accelerators * pieces
    best = None
    for at in product(range(-1, slots), repeat=len(problem)):
        piece = np.array(at)
        schedule = PieceSchedule(
            problem,
            tuple(
                tuple(
                    np.flatnonzero(piece == a * pieces + q)
                    for q in range(pieces)
                    if (piece == a * pieces + q).any()
                )
                for a in range(problem.accelerators)
            ),
        )
        try:
            confirm(problem, schedule.split)
        except PlacementError:
            continue
        latency = schedule.latency
        best = latency if best is None else min(best, latency)
    return best
