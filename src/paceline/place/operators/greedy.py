"""Greedy fill: classes in topological order onto the first accelerator until it is full."""

import numpy as np

from paceline.place.operators.classes import Classes, contiguous_classes, parts_of
from paceline.place.operators.problem import Problem
from paceline.place.operators.split import TOLERANCE, PlacedNodes, Split


def greedy_fill(problem: Problem) -> Split | None:
    """Each accelerator up to its memory, the rest on one CPU; None where there is no CPU for it.

    (This is the published latency baseline. For throughput see `greedy_share`.)"""
    return _fill(problem, contiguous_classes(problem), np.inf)


def greedy_share(problem: Problem) -> Split | None:
    """The same, but an accelerator also counts as full at its even share of the work."""
    classes = contiguous_classes(problem)
    share = float(classes.accelerator_time.sum()) / max(1, problem.accelerators)
    return _fill(problem, classes, share)


def _fill(problem: Problem, classes: Classes, work_limit: float) -> Split | None:
    room = problem.memory * (1 + TOLERANCE)
    held: list[list[int]] = [[] for _ in range(problem.accelerators)]
    rest: list[int] = []
    device, size, work = 0, 0.0, 0.0
    for c in range(len(classes)):
        full = size + classes.size[c] > room or work >= work_limit
        if full and classes.size[c] <= room and classes.supported[c]:
            device, size, work = device + 1, 0.0, 0.0
        if device >= problem.accelerators or not classes.supported[c] or classes.size[c] > room:
            rest.append(c)
            continue
        held[device].append(c)
        size += float(classes.size[c])
        work += float(classes.accelerator_time[c])
    if rest and not problem.cpus:
        return None
    parts = [PlacedNodes(False, parts_of(classes, members)) for members in held if members]
    if rest:
        parts.append(PlacedNodes(True, parts_of(classes, rest)))
    return Split(tuple(parts))
