"""`Correction`: what earlier runs of a job taught about its predictions. `Leaning`: what a step
hangs on, so that a measured step teaches each class of ops its share.

A correction multiplies durations once they are priced, so that the timeline, the interval and the
classes of work all follow from it.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from paceline.cost import Prices
from paceline.graph import Graph
from paceline.graph.graph import Int64
from paceline.graph.membership import TALKS, WORKS

_STRETCH = 1.02
"""Far enough that rounding to nanoseconds does not count, near enough that the same ops decide."""


@dataclass(frozen=True)
class Correction:
    """By how many times longer ops take than they were predicted to, by class."""

    work: float = 1.0
    communication: float = 1.0
    rests_on: tuple[str, ...] = ()  # runs that it was learned from, and how far it held

    def __str__(self) -> str:
        return f"work {self.work - 1:+.1%}, communication {self.communication - 1:+.1%}"


@dataclass(frozen=True)
class Leaning:
    """By how many per cent a step grows where all work, or all communication, takes one per cent
    longer. What is hidden behind other ops counts for nothing."""

    work: float
    communication: float


def corrected(graph: Graph, found: Prices, by: Correction | None) -> Prices:
    """The prices as the correction has them."""
    if by is None:
        return found
    longer = _factors(graph, by.work, by.communication)

    def borders() -> tuple[Int64, Int64]:
        return _ns(found.low_ns * longer), _ns(found.high_ns * longer)

    return Prices(_ns(found.dur_ns * longer), found.basis, borders)


def leaning_of(graph: Graph, dur_ns: Int64, step_ns: Callable[[Int64], int]) -> Leaning:
    """Of a step whose length is a function of its ops' durations."""
    plain = max(1, step_ns(dur_ns))

    def share(work: float, communication: float) -> float:
        longer = step_ns(_ns(dur_ns * _factors(graph, work, communication)))
        return (longer / plain - 1) / (_STRETCH - 1)

    return Leaning(share(_STRETCH, 1.0), share(1.0, _STRETCH))


def _factors(
    graph: Graph, work: float, communication: float
) -> "np.ndarray[tuple[int], np.dtype[np.float64]]":
    by_kind = np.where(WORKS, work, np.where(TALKS, communication, 1.0))
    return by_kind[graph.ops.kind]


def _ns(values: "np.ndarray[tuple[int], np.dtype[np.float64]]") -> Int64:
    return np.rint(values).astype(np.int64)
