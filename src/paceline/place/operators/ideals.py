"""Chains of ideals: the native program, and the same in plain Python, which is its definition."""

import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum
from itertools import product

from paceline.engine import native
from paceline.place.operators.classes import Classes
from paceline.place.operators.split import TOLERANCE

PYTHON_IDEALS = 1500
"""The plain-Python program takes seconds at so many ideals; it refuses more."""


class Status(IntEnum):
    """How a run ended (the native core's numbers)."""

    OPTIMAL = 0
    NOTHING_BETTER = 1  # than the upper bound it was given
    TOO_MANY_IDEALS = 2
    OUT_OF_TIME = 3


@dataclass(frozen=True)
class Limits:
    """When to stop, and with how many threads to work."""

    seconds: float = 60.0
    ideals: int = 400_000  # about 300 bytes each
    threads: int = max(1, min(8, os.cpu_count() or 1))


@dataclass(frozen=True)
class ChainStage:
    """One device's set, in the chain's order."""

    on_cpu: bool
    replicas: int
    load: float
    classes: tuple[int, ...]


@dataclass(frozen=True)
class Chain:
    """What a run found; `lower_bound` holds also when it was stopped."""

    status: Status
    value: float
    lower_bound: float
    ideals: int
    pairs: int
    stages: tuple[ChainStage, ...]


def solve(classes: Classes, lower: float, upper: float, limits: Limits) -> Chain:
    """The best chain with a maximum load below `upper`."""
    core = native()
    if core is None:
        return solve_in_python(classes, lower, upper, limits)
    found = core.place_contiguous(
        classes, lower, upper, limits.ideals, max(0.0, limits.seconds), limits.threads
    )
    stages = tuple(ChainStage(c, r, load, tuple(sets)) for c, r, load, sets in found.pop("stages"))
    return Chain(Status(found.pop("status")), stages=stages, **found)


def solve_in_python(classes: Classes, lower: float, upper: float, limits: Limits) -> Chain:
    """The program as it reads: best[ideal][cpus, accelerators] is the least maximum load of a
    chain up to that ideal; a set is the difference of two nested ideals."""
    deadline = time.perf_counter() + limits.seconds
    found = _ideals(classes, min(limits.ideals, PYTHON_IDEALS))
    if found is None:
        return Chain(Status.TOO_MANY_IDEALS, 0.0, lower, 0, 0, ())
    used = list(product(range(classes.cpus + 1), range(classes.accelerators + 1)))
    best: dict[int, dict[tuple[int, int], tuple[float, tuple[ChainStage, ...]]]] = {}
    pairs = 0
    for ideal in found:
        best[ideal] = dict.fromkeys(used, (0.0 if not ideal else upper, ()))
        for sub in best if ideal else ():
            if sub & ~ideal or sub == ideal:
                continue
            pairs += 1
            for stage in _stages(classes, ideal & ~sub):
                for c, a in used:
                    before = (c - 1, a) if stage.on_cpu else (c, a - stage.replicas)
                    if before not in best[sub]:
                        continue
                    value, chain = best[sub][before]
                    joined = value + stage.load if classes.total else max(value, stage.load)
                    if joined < best[ideal][c, a][0]:
                        best[ideal][c, a] = (joined, (*chain, stage))
        if time.perf_counter() > deadline:
            return Chain(Status.OUT_OF_TIME, 0.0, lower, len(found), pairs, ())
    value, stages = best[found[-1]][classes.cpus, classes.accelerators]
    status = Status.OPTIMAL if stages else Status.NOTHING_BETTER
    return Chain(status, value, value, len(found), pairs, stages)


def _ideals(classes: Classes, limit: int) -> list[int] | None:
    """All predecessor-closed sets as bit masks, smaller ones first; None above the limit."""
    before = [0] * len(classes)
    for s, t in zip(classes.edge_source.tolist(), classes.edge_target.tolist()):
        before[t] |= 1 << s
    found, level = [0], {0}
    while level:
        level = {
            ideal | 1 << c
            for ideal in level
            for c in range(len(classes))
            if not ideal >> c & 1 and not before[c] & ~ideal
        }
        found += sorted(level)
        if len(found) > limit:
            return None
    return found


def _stages(classes: Classes, members: int) -> Iterator[ChainStage]:
    """The ways to run a set: on a CPU, or on one or more accelerators."""
    inside = tuple(c for c in range(len(classes)) if members >> c & 1)
    rows = list(inside)
    if classes.cpus:
        yield ChainStage(True, 1, float(classes.cpu_time[rows].sum()), inside)
    size = float(classes.size[rows].sum())
    if classes.supported[rows].all() and size <= classes.memory * (1 + TOLERANCE):
        load = float(classes.accelerator_time[rows].sum())
        load += sum(weight for pins, weight in classes.hyperedges() if _is_cut(members, pins))
        for r in range(1, classes.max_replicas + 1):
            sync = 4 * (r - 1) / r * classes.sync_cost * size
            yield ChainStage(False, r, (load + sync) / r, inside)


def _is_cut(members: int, pins: tuple[int, ...]) -> bool:
    return 0 < sum(members >> p & 1 for p in pins) < len(pins)
