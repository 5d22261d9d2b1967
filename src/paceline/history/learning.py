"""What past runs teach about the next prediction of a like job: a `Correction`, or none.

A linear mixed model, in closed form. For each run that was predicted and measured

    log(measured / predicted) = sum over classes c of  l_c (a_c + b_c + g_c + s_c)  +  noise

where l_c is how far the step leans on class c (work, communication), and the offsets, each with
a normal prior around 0, belong to the machine (a), the model on it (b), the model with that
number of workers (g) and each of the strategies (s). The priors' widths, and how far runs scatter
beyond what their steps tell, are those under which the history is most likely, so offsets that the
runs do not agree on shrink to nothing. With the kernel

    k(i, j) = (l_i . l_j) sum over levels of  width^2 [i and j share it]

the offsets expected of a like job are sums over past runs (Gaussian process regression).

A correction is used only where it holds on runs that were left out. Each of the last runs on the
machine is corrected by all others, priors included: the mean error must shrink, over all of them
and over those of the same model. A job that was never measured with as many workers is not
corrected: errors of one model were found to say nothing of another's, nor those at two workers of
those at four.

Wrong where the machine has changed since, and where a step hangs on something that neither class
scales with (cores that workers share also cost messages processor time).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from paceline.history.entry import Entry, Ground, JobTraits
from paceline.predict import Correction

Table = NDArray[np.float64]

WIDTHS = (0.0, 0.01, 0.02, 0.05, 0.1)
"""Priors' widths that are tried: what an offset typically is, as a share of its class's time."""
USUAL = (0.01, 0.02, 0.02, 0.05)
"""Widths by level (machine, model, job, strategy) from which the search begins."""
NOISE = 0.01
"""Medians of the same job's steps differ by so much from one minute to the next, at the least."""
SCATTERS = (0.0, 0.02, 0.05, 0.1, 0.2, 0.4)
"""By how much more runs differ from what the offsets say, on a machine that others use; tried."""
BELIEVED = 2.0
"""Times as long as predicted, or as short: what is further off was mistaken, not mispriced."""
LEAST_RUNS = 3
MOST_LEFT_OUT = 20  # the newest, each in turn
MOST = 200
"""Past predictions that count, the newest: older ones tell of another machine or code."""


@dataclass(frozen=True)
class Lesson:
    """One prediction beside what was measured."""

    job: JobTraits
    ground: Ground
    strategies: frozenset[str]  # names, without settings
    run: str
    leans: tuple[float, float]  # on work, on communication
    ratio: float  # log of measured over predicted, without the correction that was in it
    noise: float  # standard error of the ratio


@dataclass(frozen=True)
class CorrectionRequest:
    """What is to be corrected."""

    job: JobTraits
    ground: Ground
    strategies: frozenset[str]

    @staticmethod
    def of(job: JobTraits, ground: Ground, strategies: Sequence[str]) -> "CorrectionRequest":
        return CorrectionRequest(job, ground, names(strategies))


def names(strategies: Sequence[str]) -> frozenset[str]:
    return frozenset(text.partition("(")[0] for text in strategies)


def lessons(entries: Sequence[Entry]) -> list[Lesson]:
    """Of entries that hold both a prediction and what was measured for it."""
    return [found for entry in entries if (found := _lesson(entry)) is not None][-MOST:]


def _lesson(entry: Entry) -> Lesson | None:
    guess, seen = entry.predicted, entry.measured
    if guess is None or seen is None or guess.leans is None or not entry.job.model:
        return None
    if guess.step_ns <= 0 or seen.step_ns <= 0:
        return None
    leans = (guess.leans.work, guess.leans.communication)
    inside = leans[0] * math.log(guess.corrected_work)
    inside += leans[1] * math.log(guess.corrected_communication)
    spread = (seen.high_ns - seen.low_ns) / 2.56 / seen.step_ns  # p10 to p90 of a normal law
    return Lesson(
        entry.job,
        guess.ground,
        names(entry.strategies),
        entry.run,
        leans,
        math.log(seen.step_ns / guess.step_ns) + inside,
        math.hypot(NOISE, 1.25 * spread / math.sqrt(max(1, seen.steps))),
    )


def correction(past: Sequence[Lesson], asked: CorrectionRequest) -> Correction | None:
    """What to correct a prediction by; None where too little is known, or it does not hold."""
    past = [one for one in past if _comparable(one, asked)]
    mine = _runs([one for one in past if one.job == asked.job])
    if not mine or len(_runs(past)) < LEAST_RUNS:
        return None
    errors = [_left_out(past, run) for run in _runs(past)[-MOST_LEFT_OUT:]]
    alike = [each for each in errors if each.model == asked.job.model]
    if not (_shrinks(errors) and (len(alike) < 2 or _shrinks(alike))):
        return None
    offsets = _fitted(past).offsets(asked)
    if np.abs(offsets).max() > math.log(BELIEVED):
        return None
    work, communication = np.exp(offsets)
    return Correction(float(work), float(communication), (_source(mine), _told(errors)))


def _comparable(one: Lesson, asked: CorrectionRequest) -> bool:
    return one.job.machine == asked.job.machine and one.ground is asked.ground


def _runs(past: Sequence[Lesson]) -> list[str]:
    return list(dict.fromkeys(one.run for one in past))


@dataclass(frozen=True)
class LeftOut:
    """A run's mean errors, which the correction did not see."""

    model: str
    before: float
    after: float


def _left_out(past: Sequence[Lesson], run: str) -> LeftOut:
    others, mine = [p for p in past if p.run != run], [p for p in past if p.run == run]
    model = _fitted(others)
    left = [one.ratio - float(np.dot(one.leans, model.offsets(_as_asked(one)))) for one in mine]
    before = np.abs(np.expm1([-one.ratio for one in mine]))
    return LeftOut(
        mine[0].job.model, float(before.mean()), float(np.abs(np.expm1(np.negative(left))).mean())
    )


def _shrinks(runs: Sequence[LeftOut]) -> bool:
    return sum(run.after for run in runs) < sum(run.before for run in runs)


def _told(runs: Sequence[LeftOut]) -> str:
    before, after = (float(np.mean([getattr(r, n) for r in runs])) for n in ("before", "after"))
    return f"left-out runs: a mean error of {before:.1%} without corrections, {after:.1%} with them"


def _source(runs: Sequence[str]) -> str:
    return f"{len(runs)} earlier runs of this job, the last: {', '.join(runs[-3:])}"


def _as_asked(one: Lesson) -> CorrectionRequest:
    return CorrectionRequest(one.job, one.ground, one.strategies)


@dataclass(frozen=True, eq=False)
class LessonModel:
    """Past lessons with the weights that the regression gives them."""

    past: tuple[Lesson, ...]
    widths: tuple[float, ...]  # by level
    weights: Table

    def offsets(self, asked: CorrectionRequest) -> Table:
        """Logs of the factors expected of what is asked, by class."""
        if not self.past:
            return np.zeros(2)
        alike = _levels([asked], [_as_asked(one) for one in self.past])
        pull = np.tensordot(np.square(self.widths), alike, 1)[0] * self.weights
        return np.asarray(pull @ np.array([one.leans for one in self.past]))


def _fitted(past: Sequence[Lesson]) -> LessonModel:
    if not past:
        return LessonModel((), (), np.zeros(0))
    best = max((_likeliest(past, scatter) for scatter in SCATTERS), key=lambda fit: fit.likelihood)
    return LessonModel(tuple(past), best.widths, best.weights)


def _likeliest(past: Sequence[Lesson], scatter: float) -> "_Fit":
    evidence, widths = _Evidence(past, scatter), list(USUAL)
    for level in range(len(widths)):
        tried = [[*widths[:level], width, *widths[level + 1 :]] for width in WIDTHS]
        widths = max(tried, key=evidence.likelihood)
    return _Fit(tuple(widths), evidence.likelihood(widths), evidence.weights(widths))


@dataclass(frozen=True, eq=False)
class _Fit:
    """The likeliest widths, where runs scatter by so much."""

    widths: tuple[float, ...]
    likelihood: float
    weights: Table


class _Evidence:
    """How likely the lessons are under priors of given widths, and what they then weigh."""

    def __init__(self, past: Sequence[Lesson], scatter: float) -> None:
        leans = np.array([one.leans for one in past])
        asked = [_as_asked(one) for one in past]
        self._levels = _levels(asked, asked) * (leans @ leans.T)
        self._noise = np.diag([one.noise**2 + scatter**2 for one in past])
        self._ratios = np.array([one.ratio for one in past])

    def likelihood(self, widths: Sequence[float]) -> float:
        """Its log, but for a constant."""
        root = np.linalg.cholesky(self._covariance(widths))
        white = np.linalg.solve(root, self._ratios)
        return float(-0.5 * white @ white - np.log(np.diag(root)).sum())

    def weights(self, widths: Sequence[float]) -> Table:
        return np.linalg.solve(self._covariance(widths), self._ratios)

    def _covariance(self, widths: Sequence[float]) -> Table:
        return np.asarray(np.tensordot(np.square(widths), self._levels, 1)) + self._noise


def _levels(these: Sequence[CorrectionRequest], those: Sequence[CorrectionRequest]) -> Table:
    """By level: what two have in common. All are of one machine and ground."""
    return np.array(
        [
            [[1.0 for _ in those] for _ in these],
            [[float(a.job.model == b.job.model) for b in those] for a in these],
            [[float(a.job == b.job) for b in those] for a in these],
            [[float(len(a.strategies & b.strategies)) for b in those] for a in these],
        ]
    )
