"""Time to accuracy: rounds to a target, times how long a round takes; and a ranking by it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import ceil
from typing import Any

import numpy as np

from paceline.cluster import Cluster
from paceline.learn.arms import arms_of_any_length
from paceline.learn.curve import Reach, reach
from paceline.learn.errors import LearnError
from paceline.learn.record import LearnRun
from paceline.learn.times import RoundTime, round_time
from paceline.predict import Question

_LEAST_TIMED = 24
"""Rounds: fewer scatter too much to tell the mean."""


@dataclass(frozen=True)
class Forecast:
    """When one algorithm reaches a target on one cluster. None: it does not."""

    asked: Mapping[str, Any]  # of the runs that it rests on
    runs: int
    reach: Reach
    round: RoundTime  # of those until then
    sent_bytes: float | None  # by all, until then

    @property
    def algorithm(self) -> str:
        return str(self.asked["algorithm"])

    @property
    def seconds(self) -> float | None:
        return None if self.reach.rounds is None else self.reach.rounds * self.round.mean_s

    @property
    def low_s(self) -> float | None:
        return None if self.reach.low is None else self._off(self.reach.low, self.round.low_s, -1)

    @property
    def high_s(self) -> float | None:
        if self.reach.high is None:
            return None
        return self._off(self.reach.high, self.round.high_s, 1)

    def _off(self, rounds: float, round_s: float, way: int) -> float:
        """Both errors are independent, so their shares add in squares."""
        assert self.seconds is not None
        assert self.reach.rounds is not None
        shares = (rounds / self.reach.rounds - 1, round_s / self.round.mean_s - 1)
        return max(0.0, self.seconds * (1 + way * float(np.hypot(*shares))))


def forecast(
    runs: Sequence[LearnRun], target: float, cluster: Cluster, question: Question | None = None
) -> Forecast:
    """Of runs that differ by their seeds alone."""
    if not 0 < target < 1:
        raise LearnError(f"a target of {target:g} was asked for; give an accuracy between 0 and 1")
    if len(arms_of_any_length(runs)) != 1:
        raise LearnError(
            "runs that differ by more than their seeds were to be forecast as one; `ranked` "
            "compares them"
        )
    found = reach(runs, target)
    times = [round_time(_until(run, found), cluster, question) for run in runs]
    middle = sorted(times, key=lambda each: each.mean_s)[len(times) // 2]
    return Forecast(runs[0].asked, len(runs), found, middle, _sent(runs, found))


def ranked(
    runs: Sequence[LearnRun], target: float, cluster: Cluster, question: Question | None = None
) -> tuple[Forecast, ...]:
    """Each arm, the soonest first; those that do not get there last, the nearest first."""
    arms = arms_of_any_length(runs)
    return tuple(
        sorted((forecast(arm.runs, target, cluster, question) for arm in arms), key=_order)
    )


def _order(one: Forecast) -> tuple[bool, float]:
    seconds = one.seconds
    return (seconds is None, -one.reach.best if seconds is None else seconds)


def _until(run: LearnRun, found: Reach) -> LearnRun:
    """Later rounds do not count: a model may have grown, and clients may meet more seldom."""
    if found.rounds is None:
        return run
    return replace(run, rounds=run.rounds[: max(_LEAST_TIMED, ceil(found.rounds))])


def _sent(runs: Sequence[LearnRun], found: Reach) -> float | None:
    """As it was counted; beyond a run's end as in its mean round."""
    if found.rounds is None:
        return None
    return float(np.mean([_sent_until(run, found.rounds) for run in runs]))


def _sent_until(run: LearnRun, rounds: float) -> float:
    behind = [0, *(each.round + 1 for each in run.judged)]
    if rounds > behind[-1]:
        return run.sent_bytes * rounds / max(1, behind[-1])
    return float(np.interp(rounds, behind, [0, *(each.sent_bytes for each in run.judged)]))
