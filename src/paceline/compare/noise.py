"""Whether two runs' steps differ by more than each run's own steps spread.

Neighbouring steps are alike (a machine is busy for seconds, not for one step), so n steps tell as
much as n (1 - r) / (1 + r) independent ones, where r is their correlation with the step before.
Steps before and after the recorded ones lie seconds apart: what their medians differ by is a drift
that more steps of one stretch would not have shown, and counts as much as the spread.

Both are told from few values: a spread from as many as count, less one; a drift from the stretches
of both runs, which tell it together, for it is the machine's. How many standard errors a difference
must exceed follows from that (Welch's test).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from paceline.cost.student import joint_freedom, t95

LEAST: Final = 0.01
"""What two runs of one job differ by at least, of a step: memory lies elsewhere, clocks move."""
_MEDIAN: Final = 1.2533  # standard error of a median over that of a mean, of normal samples
_MAD: Final = 1.4826  # standard deviation over the median distance from the median
_MOST_CORRELATED: Final = 0.9


@dataclass(frozen=True)
class Steps:
    """Lengths of a run's steps in ns, in stretches that lie apart in time."""

    stretches: tuple[tuple[int, ...], ...]
    plain: bool = True  # ran without instruments

    @property
    def all(self) -> tuple[int, ...]:
        return tuple(step for stretch in self.stretches for step in stretch)

    @property
    def median_ns(self) -> float:
        return float(np.median(self.all))


@dataclass(frozen=True)
class Noise:
    """By what the medians of two runs of the same job would differ, in ns."""

    noise_ns: float
    tested: bool  # False where a run has too few steps to tell its spread
    correlation: float  # of a step with the one before, the higher of both runs
    step_ns: float = 0.0  # the shorter of both medians


def noise_of(a: Steps, b: Steps) -> Noise:
    """What a difference of the two runs' medians must exceed."""
    drift = _drift(a), _drift(b)
    errors = [_spread(a), _spread(b), (sum(v for v, _ in drift), sum(f for _, f in drift))]
    error = math.sqrt(sum(variance for variance, _ in errors))
    step = min(a.median_ns, b.median_ns)
    return Noise(
        max(t95(joint_freedom(errors)) * error, LEAST * step),
        min(len(a.all), len(b.all)) >= 3,
        max(correlation(a), correlation(b)),
        step,
    )


def correlation(steps: Steps) -> float:
    """Of a step with the one before, within stretches; 0 where there are too few, or it is less."""
    apart = [np.array(each, float) - np.median(each) for each in steps.stretches if len(each) > 2]
    power = sum(float((each**2).sum()) for each in apart)
    if not power:
        return 0.0
    met = sum(float((each[1:] * each[:-1]).sum()) for each in apart)
    return min(_MOST_CORRELATED, max(0.0, met / power))


def _spread(steps: Steps) -> tuple[float, float]:
    """By what the steps' spread puts the median off: its variance, and that one's freedom."""
    r, count = correlation(steps), len(steps.all)
    independent = max(2.0, count * (1 - r) / (1 + r))
    error = _MEDIAN * _deviation(steps.all) / math.sqrt(independent)
    return error**2, independent - 1


def _drift(steps: Steps) -> tuple[float, float]:
    """The same, by what the run's stretches lie apart."""
    medians = [float(np.median(each)) for each in steps.stretches if each]
    if len(medians) < 2:
        return 0.0, 0.0
    return ((max(medians) - min(medians)) / 2) ** 2, len(medians) - 1.0


def _deviation(lengths: Sequence[int]) -> float:
    return _MAD * float(np.median(np.abs(np.array(lengths) - np.median(lengths))))
