"""Kernels without a launch in the trace: those of a step before it, replays of a CUDA graph.

The same kernel, put on the device in the same way and with the same kernels beside it, did the same
work elsewhere in the trace. Where fewer of the kernels beside it are the same, or its launch is not
told, what is the same must be enough: it is if all its likes did one and the same work.
"""

from collections import Counter

import numpy as np

from paceline.graph import NONE
from paceline.trace.trace import Int64


def recognised(name: Int64, launch: Int64, lane: Int64, known: Int64) -> Int64:
    """For each kernel (in order of lane and start) the number of its work. `known` has it where
    the launch tells, else NONE; so has the result where nothing is alike."""
    found = known.copy()
    for reach in (3, 1, 0):
        beside = [_beside(name, lane, way) for way in range(-reach, reach + 1)]
        alike = _by_likes(np.stack([*beside, launch]), known)
        likely = _by_likes(np.stack(beside), known)
        alike = np.where((alike == NONE) & (launch == NONE), likely, alike)
        found = np.where(found == NONE, alike, found)
    return found


def _beside(name: Int64, lane: Int64, way: int) -> Int64:
    """The kernel so many places further on its lane."""
    beside = np.full(len(name), NONE, np.int64)
    if len(name) <= abs(way):
        return beside
    here, there = (slice(-way, None), slice(None, way)) if way < 0 else (
        slice(None, len(name) - way), slice(way, None)
    )  # fmt: skip
    same = lane[here] == lane[there]
    beside[here] = np.where(same, name[there], NONE)
    return beside


def _by_likes(columns: Int64, known: Int64) -> Int64:
    """What all kernels of equal columns whose work is known have in common."""
    missing = known == NONE
    if not missing.any() or missing.all():
        return known
    _, group = np.unique(columns, axis=1, return_inverse=True)
    group = group.reshape(-1)
    works: dict[int, Counter[int]] = {}
    for each, work in zip(group[~missing].tolist(), known[~missing].tolist()):
        works.setdefault(each, Counter())[work] += 1
    alone = {each: next(iter(seen)) for each, seen in works.items() if len(seen) == 1}
    found = known.copy()
    found[missing] = [alone.get(each, NONE) for each in group[missing].tolist()]
    return found
