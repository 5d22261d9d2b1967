"""Is a job faster under a plan, or was that chance? A test that shuffles labels within rounds.

Who runs when was drawn by chance (`blocks`), so under no effect every order of a round's labels
was equally likely, however steps resemble their neighbours: the share of shuffles that favour the
plan as much as what was seen is an exact chance of error. The interval holds every gain that the
same test does not refuse. Wrong where a switch is felt for longer than the steps left out after it.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import ceil, exp, log1p, sqrt
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from paceline.trial.blocks import Side
from paceline.trial.series import Sample

Floats = NDArray[np.float64]

SHUFFLES = 2000
CERTAIN = 1 / 60
"""One-sided chance of keeping a plan that brings nothing, for each of up to three trials."""
SEEN = 0.9  # the share of true gains that is to be told from chance
CALM = 3.0
"""Times the median distance from a round's middle beyond which a block is not taken at its word.
Where a plan halves the step, each side lies one such distance away."""
FAR = 5.0  # of a logarithm: a factor of 148
WORTH = 0.03  # the gain of which is said how many steps it takes to see it


@dataclass(frozen=True)
class Gain:
    """How much faster: 0.25 is a step that takes 1/1.25 of its time. From `low` to `high` is what
    the test does not refuse."""

    gain: float
    low: float
    high: float
    chance: float  # of a gain this large where there is none
    floor: float  # by how much the job differs from itself, at most in 19 of 20 cases
    itself: float  # by how much its two halves did
    rounds: int
    needed: int  # steps of each side that tell a gain of `WORTH`

    @property
    def times(self) -> float:
        """Times as fast."""
        return 1 + self.gain


def gain_of(samples: Sequence[Sample], steps_a_block: int = 1, seed: int = 0) -> Gain | None:
    """None where no round holds all three sides."""
    table = _Table.of(samples)
    if not table.rounds:
        return None
    draw = np.random.default_rng(seed)
    planned = table.of_side(Side.PLAN)
    shuffled = table.shuffled(planned, draw)
    seen = _effect(table, planned[None])[0]
    low, high = _interval(table, planned, shuffled, seen)
    floor, itself = _against_itself(table, draw)
    return Gain(
        gain=exp(seen) - 1,
        low=exp(low) - 1,
        high=exp(high) - 1,
        chance=_chance(_effect(table, shuffled), seen),
        floor=floor,
        itself=itself,
        rounds=table.rounds,
        needed=steps_needed(WORTH, table.deviation * sqrt(steps_a_block)),
    )


def steps_needed(gain: float, deviation: float) -> int:
    """Steps of each side after which a true gain is seen in nine of ten trials. `deviation` is of
    a step's logarithm; where steps resemble their neighbours, of a block's mean times the root
    of its steps, which then is larger."""
    z = NormalDist().inv_cdf(1 - CERTAIN) + NormalDist().inv_cdf(SEEN)
    return max(2, ceil(2 * (z * deviation / log1p(gain)) ** 2))


@dataclass(frozen=True, eq=False)
class _Table:
    """Blocks as columns."""

    values: Floats
    sides: tuple[Side, ...]
    number: NDArray[np.int64]  # of the round, from 0

    @staticmethod
    def of(samples: Sequence[Sample]) -> "_Table":
        names = sorted({s.round for s in samples})
        whole = [n for n in names if {s.side for s in samples if s.round == n} == set(Side)]
        kept = [s for s in samples if s.round in whole]
        number = np.array([whole.index(s.round) for s in kept], dtype=np.int64)
        values = np.array([s.value for s in kept])
        return _Table(_calmed(values, number), tuple(s.side for s in kept), number)

    def of_side(self, wanted: Side) -> NDArray[np.bool_]:
        return np.array([side is wanted for side in self.sides], np.bool_)

    @property
    def rounds(self) -> int:
        return len(set(self.number.tolist()))

    @property
    def deviation(self) -> float:
        """Of a block, within its round and side."""
        planned = self.of_side(Side.PLAN)
        left, freedom = 0.0, 0
        for row in range(self.rounds):
            for side in (planned, ~planned):
                mine = self.values[(self.number == row) & side]
                left += float(((mine - mine.mean()) ** 2).sum())
                freedom += len(mine) - 1
        return sqrt(left / freedom) if freedom else 0.0

    def shuffled(self, chosen: NDArray[np.bool_], draw: np.random.Generator) -> NDArray[np.bool_]:
        """Who bears the label, many times, as many in each round as before."""
        found = np.zeros((SHUFFLES, len(self.values)), np.bool_)
        for row in range(self.rounds):
            mine = np.flatnonzero(self.number == row)
            order = draw.random((SHUFFLES, len(mine))).argsort(axis=1)
            found[:, mine] = order < chosen[mine].sum()
        return found


def _calmed(values: Floats, number: NDArray[np.int64]) -> Floats:
    """Blocks that a burst hit count as slow ones, not as slow as they were. Who bears which label
    is not looked at, so that the test stays exact."""
    middle = np.zeros(len(values))
    for row in np.unique(number):
        middle[number == row] = np.median(values[number == row])
    left = values - middle
    most = CALM * float(np.median(np.abs(left))) if len(left) else 0.0
    calmed: Floats = middle + np.clip(left, -most, most)
    return calmed


def _effect(table: _Table, chosen: NDArray[np.bool_]) -> Floats:
    """By how much shorter blocks with the label are, as a logarithm: the mean over rounds."""
    return _weights(table, chosen) @ table.values


def _weights(table: _Table, chosen: NDArray[np.bool_]) -> Floats:
    found = np.zeros(chosen.shape)
    for row in range(table.rounds):
        mine = table.number == row
        many = chosen[:, mine].sum(axis=1, keepdims=True)
        rest = mine.sum() - many
        found[:, mine] = np.where(chosen[:, mine], -1 / many, 1 / rest) / table.rounds
    return found


def _chance(shuffled: Floats, seen: float) -> float:
    """The order that was seen is one of those that could have been."""
    return float((1 + (shuffled >= seen - 1e-12).sum()) / (1 + len(shuffled)))


def _interval(
    table: _Table, planned: NDArray[np.bool_], shuffled: NDArray[np.bool_], seen: float
) -> tuple[float, float]:
    """Gains d for which, taken off the plan's blocks, what is left does not differ from chance. A
    shuffle then shows its effect plus d times the share of its weight on those blocks."""
    weights = _weights(table, shuffled)
    effects, moved = weights @ table.values, weights @ planned.astype(np.float64)

    def likely(d: float, sign: float) -> bool:
        left = sign * (effects + d * moved)
        return _chance(left, sign * (seen - d)) > CERTAIN

    return _border(lambda d: likely(d, 1.0), seen, -1.0), _border(
        lambda d: likely(d, -1.0), seen, 1.0
    )


def _border(likely: Callable[[float], bool], seen: float, way: float) -> float:
    """As far from what was seen as is likely; too few rounds for a test refuse nothing."""
    far = 0.01
    while likely(seen + way * far):
        far *= 2
        if far > FAR:
            return way * FAR
    near = 0.0
    for _ in range(30):
        middle = (near + far) / 2
        near, far = (middle, far) if likely(seen + way * middle) else (near, middle)
    return seen + way * near


def _against_itself(table: _Table, draw: np.random.Generator) -> tuple[float, float]:
    """Of the baseline's blocks alone: what shuffling their two names makes, and what was seen."""
    rest = ~table.of_side(Side.PLAN)
    names = tuple(side for side in table.sides if side is not Side.PLAN)
    alone = _Table(table.values[rest], names, table.number[rest])
    again = alone.of_side(Side.AGAIN)
    made = np.abs(_effect(alone, alone.shuffled(again, draw)))
    return exp(float(np.quantile(made, 0.95))) - 1, exp(_effect(alone, again[None])[0]) - 1
