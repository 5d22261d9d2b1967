"""Which network of a space to take, when each may be measured and few can be.

The most arithmetic within a limit of latency stands for the best network: nobody trains them here,
and within a space accuracy grows with arithmetic. A search guesses all latencies, measures those
that promise most within the limit, and learns from each how far its guesses are off.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Generic, TypeVar

Candidate = TypeVar("Candidate")


@dataclass(frozen=True)
class Guessed(Generic[Candidate]):
    """A candidate before it is measured. A guess may be in any unit: only ratios count."""

    candidate: Candidate
    flops: int
    guess: float


@dataclass(frozen=True)
class Chosen(Generic[Candidate]):
    """The best that was measured; None where nothing measured keeps the limit."""

    best: Guessed[Candidate] | None
    latency_ns: int
    measured: int
    within: int  # of these, how many keep the limit


def within_latency(
    space: Sequence[Guessed[Candidate]],
    measure: Callable[[Candidate], int],
    limit_ns: int,
    measurements: int,
) -> Chosen[Candidate]:
    """Begins in the middle of the guesses, to learn how they scale."""
    left = sorted(space, key=lambda each: each.guess)
    ratios: list[float] = []
    found: list[tuple[Guessed[Candidate], int]] = []
    for _ in range(min(measurements, len(left))):
        at = _next(left, ratios, limit_ns, max((g.flops for g, t in found if t <= limit_ns),
                                               default=0))  # fmt: skip
        tried = left.pop(at)
        took = measure(tried.candidate)
        ratios.append(took / tried.guess)
        found.append((tried, took))
    fits = [(each, took) for each, took in found if took <= limit_ns]
    if not fits:
        return Chosen(None, 0, len(found), 0)
    best, took = max(fits, key=lambda pair: pair[0].flops)
    return Chosen(best, took, len(found), len(fits))


def _next(
    left: Sequence[Guessed[Candidate]], ratios: Sequence[float], limit_ns: int, best: int
) -> int:
    """The most arithmetic that is believed to keep the limit and would be better than the best;
    where nothing would, the one that is believed to come nearest to it."""
    if not ratios:
        return len(left) // 2
    scale = median(ratios)
    promising = [
        at for at, each in enumerate(left) if each.guess * scale <= limit_ns and each.flops > best
    ]
    if promising:
        return max(promising, key=lambda at: left[at].flops)
    better = [at for at, each in enumerate(left) if each.flops > best] or list(range(len(left)))
    return min(better, key=lambda at: left[at].guess)
