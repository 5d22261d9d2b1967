"""Two ways of doing the same work, timed in turn, and their ratio."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from paceline.graph.variants import Ratio, Variant

Work = Callable[[], Any]
_LEAST, _MOST = 5, 60  # runs of a pair
_BUDGET_NS = 60_000_000  # for a pair, within those


@dataclass(frozen=True)
class Pair:
    """Times of one piece of work both ways, in ns, run by run, and how often a step does it."""

    plain: tuple[int, ...]
    changed: tuple[int, ...]
    count: int = 1


def timed(plain: Work, changed: Work, count: int = 1) -> Pair:
    """Both in turn, so that a machine that slows down slows both."""
    plain(), changed()
    rows: list[tuple[int, int]] = []
    begun = time.perf_counter_ns()
    while len(rows) < _LEAST or (len(rows) < _MOST and time.perf_counter_ns() - begun < _BUDGET_NS):
        rows.append((_once(plain), _once(changed)))
    return Pair(tuple(row[0] for row in rows), tuple(row[1] for row in rows), count)


def ratio_of(operator: str, variant: Variant, pairs: Sequence[Pair]) -> Ratio:
    """Of all together: by their medians, and with the changed ones' quartiles."""
    plain = sum(pair.count * median(pair.plain) for pair in pairs)
    value = sum(pair.count * median(pair.changed) for pair in pairs) / plain
    low, high = (
        sum(pair.count * _quantile(pair.changed, share) for pair in pairs) / plain
        for share in (0.25, 0.75)
    )
    return Ratio(operator, variant, value, min(low, value), max(high, value))


def _once(work: Work) -> int:
    begin = time.perf_counter_ns()
    work()
    return time.perf_counter_ns() - begin


def _quantile(values: tuple[int, ...], share: float) -> float:
    return float(sorted(values)[round(share * (len(values) - 1))])
