"""`Point`: how long one instance takes for a batch, measured; `Latency`: the curve through points.

Between measured batches the time is a straight line; beyond the largest one it goes on in
proportion. Between measured numbers of threads it is a straight line in 1 / threads, as work that
is divided and work that is not make it.
"""

from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from paceline.serve.errors import ServeError


@dataclass(frozen=True)
class Point:
    """One instance's time for one batch: the median of its runs, and where most of them lie."""

    threads: int
    batch: int
    median_ns: float
    low_ns: float  # a tenth of the runs took less
    high_ns: float  # a tenth of the runs took longer
    runs: int
    crowded: bool = False  # with instances of as many threads on all other cores

    @staticmethod
    def of(threads: int, batch: int, runs_ns: Sequence[float], crowded: bool = False) -> "Point":
        ordered, last = sorted(runs_ns), len(runs_ns) - 1
        low, high = ordered[round(0.1 * last)], ordered[round(0.9 * last)]
        return Point(threads, batch, median(ordered), low, high, len(ordered), crowded)


class Latency:
    """Time of one instance for any threads and batch, from measured points of one kind."""

    def __init__(self, points: Sequence[Point]) -> None:
        if not points:
            raise ServeError("a latency needs at least one measured point; profile the model first")
        found: dict[int, dict[int, float]] = {}
        for point in points:
            found.setdefault(point.threads, {})[point.batch] = point.median_ns
        self._curves = {threads: _Curve(found[threads]) for threads in sorted(found)}

    @property
    def threads(self) -> tuple[int, ...]:
        """Numbers of threads that were measured, in order."""
        return tuple(self._curves)

    def ns(self, threads: int, batch: int) -> float:
        if threads in self._curves:
            return self._curves[threads].ns(batch)
        return between_threads(self.threads, threads, lambda known: self._curves[known].ns(batch))


def between_threads(measured: Sequence[int], threads: int, value: Callable[[int], float]) -> float:
    """On the straight line in 1 / threads; beyond what was measured as with the nearest."""
    at = bisect_left(measured, threads)
    if at == len(measured) or at == 0 or measured[at] == threads:
        return value(measured[min(at, len(measured) - 1)])
    fewer, more = measured[at - 1], measured[at]
    share = (1 / fewer - 1 / threads) / (1 / fewer - 1 / more)
    few, many = value(fewer), value(more)
    return few + share * (many - few)


class _Curve:
    """Time against batch, at one number of threads."""

    def __init__(self, by_batch: Mapping[int, float]) -> None:
        self._batches = sorted(by_batch)
        self._times = [by_batch[batch] for batch in self._batches]

    def ns(self, batch: int) -> float:
        batches, times = self._batches, self._times
        at = bisect_left(batches, batch)
        if at == len(batches):
            return times[-1] * batch / batches[-1]
        if batches[at] == batch or at == 0:
            return times[at]
        share = (batch - batches[at - 1]) / (batches[at] - batches[at - 1])
        return times[at - 1] + share * (times[at] - times[at - 1])
