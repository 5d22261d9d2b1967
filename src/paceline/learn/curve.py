"""Accuracy by round, with its uncertainty, and the round in which a target is reached.

What was observed counts first: the first judgement at which a run's smoothed curve reaches the
target. Where a run ended before, its curve is carried on by a power law, a - b (round + 1)^-c, and
the interval is as wide as fits to resampled judgements differ. A target above what the law can ever
reach is said to be out of reach.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from paceline.learn.record import LearnRun

Floats = NDArray[np.float64]

_EXPONENTS = np.linspace(0.1, 2.0, 20)
_RESAMPLED = 200
_FIRST_SHARE = 0.25  # of the judgements, that a fit leaves out: no law holds from the first step
_FARTHEST = 20  # times the run's length: farther is no forecast


@dataclass(frozen=True)
class Reach:
    """After how many rounds the target is reached. None: it is not, and `best` is what was."""

    target: float
    rounds: float | None
    low: float | None
    high: float | None
    best: float  # highest accuracy that was seen, mean of the runs
    observed: bool  # in every run; else the curve was carried on


def reach(runs: Sequence[LearnRun], target: float) -> Reach:
    """Of runs that differ by their seeds."""
    curves = [_Curve.of(run) for run in runs]
    best = float(np.mean([curve.smooth.max() for curve in curves]))
    seen = [curve.crossing(target) for curve in curves]
    if all(at is not None for at in seen):
        found = np.array(seen, np.float64)
        noise = np.array([curve.noise_rounds(target) for curve in curves])
        low, high = _interval(found, noise)
        return Reach(target, float(found.mean()), low, high, best, True)
    carried = np.concatenate([curve.carried(target) for curve in curves])
    sure = carried[np.isfinite(carried)]
    if len(sure) < len(carried) / 2:
        return Reach(target, None, None, None, best, False)
    low, middle, high = np.percentile(carried, [5, 50, 95], method="nearest").tolist()
    return Reach(target, middle, low, high if np.isfinite(high) else None, best, False)


def _interval(found: Floats, noise: Floats) -> tuple[float, float]:
    """Of one more run with another seed: the runs' spread and the judgements' own, twice each."""
    spread = float(found.std(ddof=1)) if len(found) > 1 else 0.0
    wide = 2 * float(np.hypot(spread, noise.mean()))
    return max(1.0, float(found.mean()) - wide), float(found.mean()) + wide


@dataclass(frozen=True, eq=False)
class _Curve:
    """One run's judgements."""

    rounds: Floats  # behind so many, from 1
    accuracy: Floats
    smooth: Floats
    error: float  # of one judgement: the test samples are a draw

    @staticmethod
    def of(run: LearnRun) -> "_Curve":
        rounds = np.array([each.round + 1 for each in run.judged], np.float64)
        accuracy = np.array([each.accuracy for each in run.judged])
        error = float(np.sqrt(0.25 / max(1, run.test_samples)))
        return _Curve(rounds, accuracy, _smoothed(accuracy), error)

    def crossing(self, target: float) -> float | None:
        """Between two judgements, on a line."""
        above = np.flatnonzero(self.smooth >= target)
        if not len(above):
            return None
        at = int(above[0])
        if not at:
            return float(self.rounds[0])
        low, high = self.smooth[at - 1 : at + 1]
        share = (target - low) / (high - low)
        return float(self.rounds[at - 1] + share * (self.rounds[at] - self.rounds[at - 1]))

    def noise_rounds(self, target: float) -> float:
        """By how many rounds a judgement's error moves the crossing."""
        at = int(np.flatnonzero(self.smooth >= target)[0])
        first, last = max(0, at - 2), min(len(self.rounds) - 1, at + 2)
        gained = self.smooth[last] - self.smooth[first]
        if last == first or gained <= 0:
            return float(self.rounds[at])
        return float(self.error * (self.rounds[last] - self.rounds[first]) / gained)

    def carried(self, target: float) -> Floats:
        """The crossing by fits to resampled judgements; infinite where a fit never gets there."""
        seen = self.crossing(target)
        if seen is not None:
            return np.full(_RESAMPLED, seen)
        first = int(_FIRST_SHARE * len(self.rounds))
        rounds, values = self.rounds[first:], self.accuracy[first:]
        if len(rounds) < 4:
            return np.full(_RESAMPLED, np.inf)
        drawn = np.random.default_rng(len(rounds))
        picks = drawn.integers(0, len(rounds), (_RESAMPLED, len(rounds)))
        farthest = _FARTHEST * self.rounds[-1]
        found = np.array([_crossed(rounds[p], values[p], target) for p in picks])
        return np.where(found <= farthest, np.maximum(found, self.rounds[-1]), np.inf)


def _smoothed(values: Floats) -> Floats:
    """Median of three: one lucky judgement reaches nothing."""
    if len(values) < 3:
        return values
    inner = np.median([values[:-2], values[1:-1], values[2:]], axis=0)
    return np.concatenate([[min(values[:2])], inner, [min(values[-2:])]])


def _crossed(rounds: Floats, values: Floats, target: float) -> float:
    """Where a - b (r + 1)^-c reaches the target, of the exponent that fits best."""
    best = (np.inf, np.inf)
    for exponent in _EXPONENTS:
        falls = (rounds + 1) ** -exponent
        table = np.stack([np.ones_like(falls), -falls], axis=1)
        (limit, scale), *_ = np.linalg.lstsq(table, values, rcond=None)
        error = float(((table @ [limit, scale] - values) ** 2).sum())
        if error < best[0] and scale > 0:
            reaches = limit > target and limit <= 1
            rounds_to = (scale / (limit - target)) ** (1 / exponent) - 1 if reaches else np.inf
            best = (error, float(rounds_to))
    return best[1]
