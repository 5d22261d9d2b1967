"""Two ways of doing the same work, timed in turn, and their ratio."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from paceline.graph.variants import Ratio, Variant

Work = Callable[[], Any]
Clock = Callable[[], int]
_LEAST, _MOST = 5, 60  # runs of a pair
_BUDGET_NS = 60_000_000  # for a pair, within those


@dataclass(frozen=True)
class TimedPair:
    """Times of one piece of work both ways, in ns, run by run, and how often a step does it."""

    plain: tuple[int, ...]
    changed: tuple[int, ...]
    count: int = 1


def timed(plain: Work, changed: Work, clock: Clock, count: int = 1) -> TimedPair:
    """Both in turn, so that a machine that slows down slows both."""
    plain(), changed()
    rows: list[tuple[int, int]] = []
    begun = clock()
    while len(rows) < _LEAST or (len(rows) < _MOST and clock() - begun < _BUDGET_NS):
        rows.append((_once(plain, clock), _once(changed, clock)))
    return TimedPair(tuple(row[0] for row in rows), tuple(row[1] for row in rows), count)


def ratio_of(operator: str, variant: Variant, pairs: Sequence[TimedPair]) -> Ratio:
    """Of all together, by lower quartiles: what the machine does when little else disturbs it. From
    the lowest tenth of each to the medians both ways is the interval."""
    plain, changed = _whole(pairs, 0.25)
    others = [b / a for a, b in (_whole(pairs, 0.1), _whole(pairs, 0.5))]
    value = changed / plain
    return Ratio(operator, variant, value, min(value, *others), max(value, *others))


def clock_of(threads: int) -> Clock:
    """For work of one thread what it ran, for others cannot lengthen that; else the wall clock."""
    return time.thread_time_ns if threads == 1 else time.perf_counter_ns


def _once(work: Work, clock: Clock) -> int:
    begin = clock()
    work()
    return clock() - begin


def _whole(pairs: Sequence[TimedPair], share: float) -> tuple[float, float]:
    """What a step takes for all of them, both ways."""
    plain = sum(pair.count * _quantile(pair.plain, share) for pair in pairs)
    return plain, sum(pair.count * _quantile(pair.changed, share) for pair in pairs)


def _quantile(values: tuple[int, ...], share: float) -> float:
    return float(sorted(values)[round(share * (len(values) - 1))])
