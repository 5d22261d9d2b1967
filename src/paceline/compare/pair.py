"""`RunPair`: two runs side by side, place by place."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np

from paceline.compare.places import Float64, WorkClass, WorkPlace
from paceline.compare.side import Side
from paceline.graph import Phase

WORKS: Final = (WorkClass.COMPUTE, WorkClass.HOST, WorkClass.COPY)
LEARNS: Final = (Phase.FORWARD, Phase.BACKWARD)
SIGMAS: Final = 2.0  # of a part's change, that its steps' spread may make
_SAME_MODEL: Final = 0.5
"""Of the work's time, at places that both runs have: below it they are different models."""


@dataclass(frozen=True, eq=False)
class RunPair:
    """`a` is what `b` is compared with."""

    a: Side
    b: Side

    @cached_property
    def places(self) -> tuple[WorkPlace, ...]:
        return tuple(dict.fromkeys((*self.a.spent.places, *self.b.spent.places)))

    def path_ns(self, places: Iterable[WorkPlace]) -> tuple[float, float]:
        """A step's time at these places on its path, before and after."""
        mine = tuple(places)
        return self._mean(self.a, mine), self._mean(self.b, mine)

    def change_ns(self, places: Iterable[WorkPlace]) -> float:
        before, after = self.path_ns(places)
        return after - before

    def noise_ns(self, places: Iterable[WorkPlace]) -> float:
        """What the steps' own spread could make of a change there."""
        mine = tuple(places)
        variance = sum(_variance(self._steps(side, mine)) for side in (self.a, self.b))
        return SIGMAS * float(np.sqrt(variance))

    def by_rank_ns(self, places: Iterable[WorkPlace]) -> Float64:
        """Change of each rank's own time there, hidden or not; empty where the ranks differ."""
        if self.a.spent.ranks != self.b.spent.ranks:
            return np.zeros(0)
        change = np.zeros(len(self.a.spent.ranks))
        for place in places:
            change += self.b.spent.by_rank(place) - self.a.spent.by_rank(place)
        return change

    def displaced_ns(self, places: Iterable[WorkPlace]) -> float:
        """By how much more or less the path runs through work there than any rank's own work there
        changed: the path went elsewhere, or came; the work did not change so."""
        mine = tuple(places)
        change, own = self.change_ns(mine), self.by_rank_ns(mine)
        if not len(own):
            return 0.0
        return change - float(np.clip(change, min(0.0, own.min()), max(0.0, own.max())))

    @cached_property
    def transfer_ns(self) -> tuple[float, float]:
        """Time that messages moved, hidden or not, on the mean of the ranks."""
        return _moved(self.a), _moved(self.b)

    @cached_property
    def alike(self) -> float:
        """Share of the runs' work at places that both have: 1 is the same program."""
        common = set(self.a.spent.places) & set(self.b.spent.places)
        shares = [_share(side, common) for side in (self.a, self.b)]
        return min(shares)

    @property
    def same_model(self) -> bool:
        """By its parameters where both runs tell them, else by what it does."""
        ours, theirs = self.a.traits.parameters, self.b.traits.parameters
        return ours == theirs if ours and theirs else self.alike >= _SAME_MODEL

    @staticmethod
    def _steps(side: Side, places: Sequence[WorkPlace]) -> Float64:
        total = np.zeros(side.spent.path_ns.shape[1])
        for place in places:
            total += side.spent.path(place)
        return total

    def _mean(self, side: Side, places: Sequence[WorkPlace]) -> float:
        return float(self._steps(side, places).mean())


def _variance(steps: Float64) -> float:
    """Of the mean over the steps; 0 where one step alone tells none."""
    return float(steps.var(ddof=1)) / len(steps) if len(steps) > 1 else 0.0


def _moved(side: Side) -> float:
    moving = [place for place in side.spent.places if place.work is WorkClass.TRANSFER]
    return sum(float(side.spent.by_rank(place).mean()) for place in moving)


def _share(side: Side, common: set[WorkPlace]) -> float:
    works = [place for place in side.spent.places if place.work in WORKS]
    time = {place: float(side.spent.by_rank(place).sum()) for place in works}
    whole = sum(time.values())
    return sum(ns for place, ns in time.items() if place in common) / whole if whole else 1.0
