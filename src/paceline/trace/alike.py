"""Which op of one step is which of another, where steps are alike and not the same.

A mixture of experts runs other ops where an expert gets no token; what lies before and behind them
is the same. Steps are matched by their ops' names, a window at a time, with as few ops without a
partner as can be (Myers, "An O(ND) difference algorithm", 1986).

Wrong where a step repeats itself and a part of it is missing in the other: names do not tell which.
"""

from collections.abc import Sequence
from typing import Final

import numpy as np

from paceline.graph import NONE
from paceline.trace.trace import Int64

MOST: Final = 0.25
"""Steps of which a larger part has no partner are other steps, such as those of an evaluation."""
_WINDOW: Final = 512  # ops

Pairs = list[tuple[int, int]]


def matched(one: Sequence[str], other: Sequence[str]) -> Int64 | None:
    """The place in `other` of each of `one`, rising, NONE without a partner; None where they are
    other steps."""
    if list(one) == list(other):
        return np.arange(len(one))
    found = np.full(len(one), NONE, np.int64)
    pairs = _all_pairs(one, other)
    if 2 * len(pairs) < (1 - MOST) * (len(one) + len(other)):
        return None
    for mine, theirs in pairs:
        found[mine] = theirs
    return found


def apart(place: Int64 | None, count: int) -> float:
    """The part of both steps' ops that has no partner; `count` are the other step's."""
    if place is None:
        return 1.0
    whole = len(place) + count
    return 1 - 2 * int((place != NONE).sum()) / whole if whole else 0.0


def _all_pairs(one: Sequence[str], other: Sequence[str]) -> Pairs:
    """Window by window. A window that ends in the middle of a step tells less of its second half,
    which the next one looks at again."""
    found, mine, theirs = Pairs(), 0, 0
    while mine < len(one) and theirs < len(other):
        left, right = one[mine : mine + _WINDOW], other[theirs : theirs + _WINDOW]
        pairs = _pairs(left, right)
        is_last = mine + _WINDOW >= len(one) and theirs + _WINDOW >= len(other)
        kept = pairs if is_last else pairs[: (len(pairs) + 1) // 2]
        found += [(mine + a, theirs + b) for a, b in kept]
        if is_last or not kept:
            break
        mine, theirs = found[-1][0] + 1, found[-1][1] + 1
    return found


def _pairs(one: Sequence[str], other: Sequence[str]) -> Pairs:
    """Of two windows; none where more than a window's ops lack a partner. A path through the table
    of both goes along it (an op of one alone) or across (a pair); `far` tells for each diagonal how
    far into `one` paths with so many steps along the table get."""
    far, history = {1: 0}, list[dict[int, int]]()
    for steps in range(min(_WINDOW, len(one) + len(other)) + 1):
        history.append(far.copy())
        for diagonal in range(-steps, steps + 1, 2):
            at = _entered(far, diagonal, steps)
            while at < len(one) and at - diagonal < len(other) and one[at] == other[at - diagonal]:
                at += 1
            far[diagonal] = at
            if at == len(one) and at - diagonal == len(other):
                return _walked_back(history, diagonal, at)
    return Pairs()


def _entered(far: dict[int, int], diagonal: int, steps: int) -> int:
    """Where the path that gets furthest enters a diagonal."""
    if _is_from_above(far, diagonal, steps):
        return far[diagonal + 1]
    return far[diagonal - 1] + 1


def _is_from_above(far: dict[int, int], diagonal: int, steps: int) -> bool:
    lowest, highest = diagonal == -steps, diagonal == steps
    return lowest or (not highest and far[diagonal - 1] < far[diagonal + 1])


def _walked_back(history: Sequence[dict[int, int]], diagonal: int, at: int) -> Pairs:
    """The pairs of the path that ends there, in order."""
    pairs = Pairs()
    for steps in reversed(range(len(history))):
        far = history[steps]
        entered = _entered(far, diagonal, steps)
        pairs += [(row, row - diagonal) for row in range(at - 1, entered - 1, -1)]
        diagonal += 1 if _is_from_above(far, diagonal, steps) else -1
        at = far[diagonal]
    return pairs[::-1]
