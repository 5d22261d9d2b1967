"""What rests cost, from passes that `torch_rests` timed: how much, from which rest on, how long.

The longest rest says how much. A rest counts from the one that costs half of that, and its work is
warm once it costs less than half: behind half a pass at least, for that is what was seen cold.
"""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise, takewhile
from typing import Any

from paceline.measure.constant import Constant

LEAST = 0.03
"""A smaller cost is none: halves of it could not be told from chance."""


@dataclass(frozen=True)
class RestsCost:
    """Constants of `Machine`; the last two None where rests cost nothing."""

    rested: Constant
    rest_ns: Constant | None = None
    warm_ns: Constant | None = None


def rests_cost(found: Mapping[str, Any]) -> RestsCost:
    """From what `torch_rests.rests` returned, in seconds."""
    row = _middle(found["row"])
    after = {float(rest): _middle(halves) / row - 1 for rest, halves in found["after"].items()}
    rests = sorted(after)
    cost = after[rests[-1]]
    if cost < LEAST:
        return RestsCost(Constant(1.0, 1.0, 1.0 + max(0.0, cost)))
    spread = [sum(halves) / row for halves in found["after"][f"{rests[-1]:g}"]]
    low, _, high = statistics.quantiles(spread, n=4)
    rested = Constant(1 + cost, max(1.0, min(low, 1 + cost)), max(high, 1 + cost))
    points = [(0.0, 0.0), *((rest * 1e6, after[rest]) for rest in rests)]
    return RestsCost(rested, _crossed(points, cost / 2), _warm(found["behind"], row, cost / 2))


def _middle(halves: Sequence[Sequence[float]]) -> float:
    """Of a whole pass: the median of each half."""
    middle: float = sum(statistics.median(each) for each in zip(*halves))
    return middle


def _crossed(points: Sequence[tuple[float, float]], level: float) -> Constant:
    """Where a line through points that rise passes a level, and the two that it lies between."""
    for (left, below), (right, above) in pairwise(points):
        if above >= level:
            share = (level - below) / (above - below)
            return Constant(left + share * (right - left), left, right)
    raise AssertionError("the last point lies above its own half")


def _warm(behind: Sequence[Sequence[Sequence[float]]], row_s: float, level: float) -> Constant:
    """How much has been worked when passes cost less than the level, to a pass; at least one of
    the two halves that each came after a rest."""
    lengths_s = [_middle(same) for same in zip(*behind)]
    cold = sum(1 for _ in takewhile(lambda s: s / row_s - 1 >= level, lengths_s))
    worked_ns = [1e9 * row_s / 2, *(1e9 * s for s in accumulate(lengths_s))]
    most = min(cold + 1, len(lengths_s))
    return Constant(worked_ns[cold], worked_ns[max(0, cold - 1)], worked_ns[most])
