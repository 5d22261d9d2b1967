"""How far a clock may be off if one of its stamps is wrong and no other contradicts it.

A wrong stamp that leaves all bounds in agreement cannot be found, but it may have cut the truth
off. So the truth is looked for in what the bounds less any one leave possible. Only a bound that
touches the possible lines can have cut: a vertex of the hull over the lower bounds or under the
upper ones.
"""

from collections.abc import Iterable, Iterator

import numpy as np

from paceline.trace.bounds import Bounds, Float, OffsetLine, Reach
from paceline.trace.trace import Int64

MANY = 5
"""Bounds of one side among which one may be wrong; of fewer each is needed."""


def farthest(reaches: Iterable[Reach | None], line: OffsetLine, span: float) -> float:
    """The greatest distance from the line to any of what is possible."""
    return max(_distance(reach, line, span) for reach in reaches if reach is not None)


def one_less(bounds: Bounds) -> Iterator[Bounds]:
    """The bounds without each one that may have cut the truth off."""
    low, high = _shells(bounds.low_at, bounds.low), _shells(bounds.high_at, -bounds.high)
    outer = bounds.keeping(low > 0, high > 0)
    for row in _doubted(low[low > 0], len(bounds.low)):
        yield outer.keeping(np.arange(len(outer.low)) != row, np.ones(len(outer.high), bool))
    for row in _doubted(high[high > 0], len(bounds.high)):
        yield outer.keeping(np.ones(len(outer.low), bool), np.arange(len(outer.high)) != row)


def _doubted(shell: Int64, bounds: int) -> list[int]:
    return np.flatnonzero(shell == 1).tolist() if bounds >= MANY else []


def _shells(at: Float, value: Float) -> Int64:
    """1 for the vertices of the upper hull, 2 for those of the hull below it, 0 for all others.

    What comes to touch when one vertex goes is in the second.
    """
    shell = np.zeros(len(at), np.int64)
    for number in (1, 2):
        left = np.flatnonzero(shell == 0)
        shell[left[_upper_hull(at[left], value[left])]] = number
    return shell


def _upper_hull(at: Float, value: Float) -> list[int]:
    hull: list[int] = []
    for row in np.lexsort((value, at)).tolist():
        while len(hull) > 1 and _turns_left(at, value, hull[-2], hull[-1], row):
            hull.pop()
        hull.append(row)
    return hull


def _turns_left(at: Float, value: Float, a: int, b: int, c: int) -> bool:
    """Whether b is not above the line from a to c."""
    across = (at[b] - at[a]) * (value[c] - value[a])
    return bool(across >= (value[b] - value[a]) * (at[c] - at[a]))


def _distance(reach: Reach, line: OffsetLine, span: float) -> float:
    last = line.first + line.slope * span
    first_edges = (reach.low_first - line.first, reach.high_first - line.first)
    last_edges = (reach.low_last - last, reach.high_last - last)
    return max(abs(edge) for edge in (*first_edges, *last_edges))
