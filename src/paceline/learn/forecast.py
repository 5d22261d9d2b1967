"""Time to accuracy: rounds to a target, times how long a round takes; and a ranking by it."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from paceline.cluster import Cluster
from paceline.learn.curve import Reach, reach
from paceline.learn.errors import LearnError
from paceline.learn.record import LearnRun
from paceline.learn.times import RoundTime, round_time
from paceline.predict import Question


@dataclass(frozen=True)
class Forecast:
    """When one algorithm reaches a target on one cluster. None: it does not."""

    algorithm: str
    runs: int
    reach: Reach
    round: RoundTime
    sent_bytes: float | None  # by all, until then

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
    if len({run.algorithm for run in runs}) != 1:
        raise LearnError("runs of one algorithm are forecast together; rank compares several")
    times = [round_time(run, cluster, question) for run in runs]
    middle = sorted(times, key=lambda each: each.mean_s)[len(times) // 2]
    found = reach(runs, target)
    return Forecast(runs[0].algorithm, len(runs), found, middle, _sent(runs, found))


def ranked(
    runs: Sequence[LearnRun], target: float, cluster: Cluster, question: Question | None = None
) -> tuple[Forecast, ...]:
    """By algorithm, the soonest first; those that do not get there last, the nearest first."""
    by: dict[str, list[LearnRun]] = {}
    for run in runs:
        by.setdefault(run.algorithm, []).append(run)
    found = [forecast(mine, target, cluster, question) for mine in by.values()]
    return tuple(sorted(found, key=_order))


def _order(one: Forecast) -> tuple[bool, float]:
    seconds = one.seconds
    return (seconds is None, -one.reach.best if seconds is None else seconds)


def _sent(runs: Sequence[LearnRun], found: Reach) -> float | None:
    if found.rounds is None:
        return None
    each = [run.sent_bytes / max(1, len(run.rounds)) for run in runs]
    return float(np.mean(each)) * found.rounds
