"""`Expected`: when the job whose curves these are reaches a target, as a search asks for it.

A training whose accuracy lies lower by so much is taken to reach the target when this one reaches a
target that lies higher by as much.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from paceline.learn.curve import Curve, Reach, reach_of
from paceline.learn.errors import LearnError
from paceline.search import Batches

_SURE = 2.0  # standard errors of what a plan costs


@dataclass(frozen=True, eq=False)
class Expected:
    """`search.Progress`, from the curves of one or more seeds; a round is a recorded batch."""

    curves: tuple[Curve, ...]
    target: float

    def __post_init__(self) -> None:
        if not 0 < self.target < 1:
            raise LearnError(
                f"a target of {self.target:g} was asked for; give an accuracy between 0 and 1"
            )
        if not self.curves:
            raise LearnError("no learning curve was given; give that of a short run at least")

    @property
    def best(self) -> float:
        return reach_of(self.curves, self.target).best

    def batches(self, lost: float, error: float) -> Batches | None:
        middle = self._reach(lost)
        if middle.rounds is None:
            return None
        early, late = (self._reach(max(0.0, lost + way * _SURE * error)) for way in (-1, 1))
        low = middle.rounds if early.low is None else min(early.low, middle.rounds)
        high = None if late.high is None else max(late.high, middle.rounds)
        return Batches(middle.rounds, low, high)

    def _reach(self, lost: float) -> Reach:
        return reach_of(self.curves, self.target + lost)


def expected(curves: Sequence[Curve], target: float) -> Expected:
    return Expected(tuple(curves), target)
