"""Accuracy by round, with its uncertainty, and the round in which a target is reached.

What was observed counts first: where a run's level reaches the target. The level never falls: it
is the rising curve that is nearest to the judgements (their median of three), so that a lucky one
reaches nothing. Where a run ended before, its curve is carried on by the laws that are likely
behind it (`law`), and the interval is as wide as these differ. A target that most of them do not
reach within twenty times the run's length is said to be out of reach.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import sqrt

import numpy as np

from paceline.learn.law import DRAWS, LEAST, Floats, Laws, laws_of
from paceline.learn.record import LearnRun

_FARTHEST = 20  # times the run's length: farther is no forecast
_LEAST_SCATTER = 1e-4
_SECOND_DIFFERENCE = sqrt(6)  # its deviation over that of one judgement


@dataclass(frozen=True)
class Reach:
    """After how many rounds the target is reached. None: it is not, and `best` is what was."""

    target: float
    rounds: float | None
    low: float | None
    high: float | None
    best: float  # highest level that was seen, mean of the runs
    observed: bool  # in every run; else the curve was carried on
    judged: int = LEAST  # times, the run that was judged least often

    @property
    def can_be_carried_on(self) -> bool:
        return self.judged >= LEAST


def reach(runs: Sequence[LearnRun], target: float) -> Reach:
    """Of runs that differ by their seeds."""
    return reach_of([Curve.of(run) for run in runs], target)


def reach_of(curves: Sequence["Curve"], target: float) -> Reach:
    best = float(np.mean([curve.level[-1] for curve in curves]))
    judged = min(len(curve.rounds) for curve in curves)
    seen = [curve.crossing(target) for curve in curves]
    if all(at is not None for at in seen):
        found = np.array(seen, np.float64)
        noise = np.array([curve.noise_rounds(target) for curve in curves])
        low, high = _interval(found, noise)
        return Reach(target, float(found.mean()), low, high, best, True, judged)
    carried = np.concatenate([np.resize(curve.carried(target), DRAWS) for curve in curves])
    if np.isfinite(carried).sum() < len(carried) / 2:
        return Reach(target, None, None, None, best, False, judged)
    low, middle, high = np.percentile(carried, [5, 50, 95], method="nearest").tolist()
    last = high if np.isfinite(high) else None
    return Reach(target, middle, low, last, best, False, judged)


def _interval(found: Floats, noise: Floats) -> tuple[float, float]:
    """Of one more run with another seed: the runs' spread and the judgements' own, twice each."""
    spread = float(found.std(ddof=1)) * sqrt(1 + 1 / len(found)) if len(found) > 1 else 0.0
    wide = 2 * float(np.hypot(spread, noise.mean()))
    return max(1.0, float(found.mean()) - wide), float(found.mean()) + wide


@dataclass(frozen=True, eq=False)
class Curve:
    """One run's judgements."""

    rounds: Floats  # behind so many, from 1
    accuracy: Floats
    error: float  # of one judgement

    @staticmethod
    def of(run: LearnRun) -> "Curve":
        rounds = np.array([each.round + 1 for each in run.judged], np.float64)
        accuracy = np.array([each.accuracy for each in run.judged])
        drawn = sqrt(0.25 / max(1, run.test_samples))  # the test samples are a draw
        return Curve(rounds, accuracy, max(drawn, scatter(accuracy)))

    @cached_property
    def level(self) -> Floats:
        return rising(_smoothed(self.accuracy))

    @cached_property
    def laws(self) -> Laws:
        """By the judgements' scatter: that the test samples are a draw moves all of them alike."""
        return laws_of(self.rounds, self.accuracy, max(_LEAST_SCATTER, scatter(self.accuracy)))

    def crossing(self, target: float) -> float | None:
        """Between two judgements, on a line."""
        above = np.flatnonzero(self.level >= target)
        if not len(above):
            return None
        at = int(above[0])
        if not at:
            return float(self.rounds[0])
        low, high = self.level[at - 1 : at + 1]
        share = (target - low) / (high - low)
        return float(self.rounds[at - 1] + share * (self.rounds[at] - self.rounds[at - 1]))

    def noise_rounds(self, target: float) -> float:
        """By how many rounds a judgement's error moves the crossing."""
        at = int(np.flatnonzero(self.level >= target)[0])
        first, last = max(0, at - 2), min(len(self.rounds) - 1, at + 2)
        gained = self.level[last] - self.level[first]
        if last == first or gained <= 0:
            return float(self.rounds[at])
        return float(self.error * (self.rounds[last] - self.rounds[first]) / gained)

    def carried(self, target: float) -> Floats:
        """The crossing by laws that are likely; infinite where one never gets there."""
        seen = self.crossing(target)
        if seen is not None:
            return np.array([seen])
        if len(self.rounds) < LEAST:
            return np.array([np.inf])
        found = self.laws.crossing(target)
        beyond = np.maximum(found, self.rounds[-1])
        return np.where(found <= _FARTHEST * self.rounds[-1], beyond, np.inf)


def scatter(accuracy: Floats) -> float:
    """A judgement's own error, by how far it lies from the line between its neighbours."""
    if len(accuracy) < LEAST:
        return 0.0
    return float(np.median(np.abs(np.diff(accuracy, 2))) / 0.6745 / _SECOND_DIFFERENCE)


def rising(values: Floats) -> Floats:
    """The rising curve nearest to these values, by pooling neighbours that fall (Barlow et al.,
    "Statistical Inference under Order Restrictions", 1972)."""
    pools: list[tuple[float, int]] = []
    for value in values.tolist():
        pools.append((value, 1))
        while len(pools) > 1 and pools[-2][0] > pools[-1][0]:
            (one, many), (other, more) = pools[-2:]
            pools[-2:] = [((one * many + other * more) / (many + more), many + more)]
    return np.concatenate([np.full(count, value) for value, count in pools])


def _smoothed(values: Floats) -> Floats:
    """Median of three: one lucky judgement reaches nothing."""
    if len(values) < 3:
        return values
    inner = np.median([values[:-2], values[1:-1], values[2:]], axis=0)
    return np.concatenate([[min(values[:2])], inner, [min(values[-2:])]])
