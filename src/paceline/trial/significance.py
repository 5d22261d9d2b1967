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
Bools = NDArray[np.bool_]

SHUFFLES = 2000
CERTAIN = 1 / 60
"""One-sided chance of keeping a plan that brings nothing, for each of up to three trials."""
SEEN = 0.9  # the share of true gains that is to be told from chance
CALM = 3.0
"""Times the median distance from a round's middle beyond which a block is not taken at its word.
Where a plan halves the step, each side lies one such distance away."""
STEPS = 34  # of halving an interval: to less than a millionth
FAR = 5.0  # of a logarithm: a factor of 148
NORMAL = 1.4826  # a deviation over the median distance, where values are normal
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
    test = _Test.of(table, table.of_side(Side.PLAN), draw)
    none = _Test.of(*table.against_itself(), draw)
    return Gain(
        gain=exp(test.found()) - 1,
        low=exp(test.border(-1.0)) - 1,
        high=exp(test.border(1.0)) - 1,
        chance=test.chance(0.0, 1.0),
        floor=exp(float(np.quantile(np.abs(none.shuffled @ none.left(0.0)), 0.95))) - 1,
        itself=exp(none.found()) - 1,
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
    """Blocks: one row for each round, all of which hold as many of each side."""

    values: Floats
    sides: tuple[tuple[Side, ...], ...]

    @staticmethod
    def of(samples: Sequence[Sample]) -> "_Table":
        rows = [[s for s in samples if s.round == n] for n in sorted({s.round for s in samples})]
        whole = [row for row in rows if {s.side for s in row} == set(Side)]
        return _Table(
            np.array([[s.value for s in row] for row in whole]),
            tuple(tuple(s.side for s in row) for row in whole),
        )

    @property
    def rounds(self) -> int:
        return len(self.sides)

    def of_side(self, wanted: Side) -> Bools:
        return np.array([[side is wanted for side in row] for row in self.sides], np.bool_)

    def against_itself(self) -> "tuple[_Table, Bools]":
        """The baseline's blocks alone, and which of them bear its second name."""
        rest = ~self.of_side(Side.PLAN)
        names = tuple(tuple(side for side in row if side is not Side.PLAN) for row in self.sides)
        alone = _Table(self.values[rest].reshape(self.rounds, -1), names)
        return alone, alone.of_side(Side.AGAIN)

    @property
    def deviation(self) -> float:
        """Of a block, within its round and side; as the middle of all tells it."""
        planned = self.of_side(Side.PLAN)
        sides = [self.values[side].reshape(self.rounds, -1) for side in (planned, ~planned)]
        left = [
            (side - side.mean(axis=1, keepdims=True)) * sqrt(many / max(1, many - 1))
            for side in sides
            for many in (side.shape[1],)
        ]
        return NORMAL * float(np.median(np.abs(np.concatenate(left, axis=1))))


@dataclass(frozen=True, eq=False)
class _Test:
    """Labelled blocks, and the same with their labels shuffled. `weights` of a labelling give by
    how much shorter the blocks with the label are, as a logarithm: the mean over rounds."""

    values: Floats
    labelled: Bools
    weights: Floats  # of the labels as they are
    shuffled: Floats  # one row for each shuffle

    @staticmethod
    def of(table: _Table, labelled: Bools, draw: np.random.Generator) -> "_Test":
        order = draw.random((SHUFFLES, *labelled.shape)).argsort(axis=2)
        shuffles = order < labelled.sum(axis=1)[:, None]
        return _Test(table.values, labelled, _weights(labelled[None])[0], _weights(shuffles))

    def left(self, d: float) -> Floats:
        """Blocks once a gain of d is taken off those with the label."""
        return _calmed(self.values + d * self.labelled).ravel()

    def chance(self, d: float, way: float) -> float:
        """Of an effect this large or larger, that way, where the gain is d. The order that was
        seen is one of those that could have been."""
        left = self.left(d)
        as_large = way * (self.shuffled @ left) >= way * (self.weights @ left) - 1e-12
        return float((1 + as_large.sum()) / (1 + len(as_large)))

    def found(self) -> float:
        """The gain without which nothing is left."""
        return _root(lambda d: float(self.weights @ self.left(d)), -FAR, FAR)

    def border(self, way: float) -> float:
        """The farthest gain, that way, which the test does not refuse. Fewer than three rounds
        refuse nothing."""
        middle, far = self.found(), 0.01
        while far < FAR and self.chance(middle + way * far, -way) > CERTAIN:
            far *= 2
        return _root(
            lambda d: way * (self.chance(d, -way) - CERTAIN), *sorted((middle, middle + way * far))
        )


def _root(falling: Callable[[float], float], low: float, high: float) -> float:
    """Where a function that falls crosses zero."""
    for _ in range(STEPS):
        middle = (low + high) / 2
        low, high = (middle, high) if falling(middle) > 0 else (low, middle)
    return (low + high) / 2


def _weights(labelled: Bools) -> Floats:
    """One row for each labelling."""
    many = labelled.sum(axis=2, keepdims=True)
    rest, rounds = labelled.shape[2] - many, labelled.shape[1]
    found: Floats = np.where(labelled, -1 / many, 1 / rest) / rounds
    return found.reshape(len(labelled), -1)


def _calmed(values: Floats) -> Floats:
    """Blocks that a burst hit count as slow ones, not as slow as they were. Who bears which label
    is not looked at, so that the test stays exact."""
    middle = np.median(values, axis=1, keepdims=True)
    most = CALM * float(np.median(np.abs(values - middle)))
    calmed: Floats = middle + np.clip(values - middle, -most, most)
    return calmed
