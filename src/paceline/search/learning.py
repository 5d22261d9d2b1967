"""What plans do to learning: how many recorded batches each needs until a target accuracy.

The job as it is has a learning curve (`Progress`, which `paceline.learn` fits to a short run). A
plan that is not exact is taken to lie below that curve by what its parts cost where they were
measured (`strategies.accuracy`), added up; one with another batch to need as many samples more as
the gradient noise scale says (McCandlish et al., "An Empirical Model of Large-Batch Training",
2018): samples to a target grow as 1 + batch / noise scale. What neither tells is refused.

Wrong where costs of several parts do not add up, where another model pays more than the measured
one, and where the learning rate is not set anew for another batch.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import hypot, inf
from typing import Protocol

from paceline.strategies import Effect, Strategy, name_of
from paceline.strategies.accuracy import LearningCost, learning_cost_of, learning_costs


@dataclass(frozen=True)
class Batches:
    """Recorded batches until a target, and between which numbers they are likely to lie. `high`
    None: it may never get there."""

    middle: float
    low: float
    high: float | None

    def times(self, factor: float) -> "Batches":
        high = None if self.high is None else self.high * factor
        return Batches(self.middle * factor, self.low * factor, high)


class Progress(Protocol):
    """The learning curve of the job as it is."""

    @property
    def target(self) -> float:
        """The accuracy that is to be reached."""

    @property
    def best(self) -> float:
        """The highest that was seen."""

    def batches(self, lost: float, error: float) -> Batches | None:
        """Until the target is reached where accuracy lies so much lower (a share of 1), give or
        take the error. None: it never is."""


@dataclass(frozen=True)
class Learned:
    """What is expected of a training under a plan."""

    batches: Batches | None  # recorded ones; None: the target is out of its reach
    points: float = 0.0  # of accuracy, below the job as it is
    error_points: float = 0.0
    growth: float = 1.0  # samples to the target over those with the recorded batch


@dataclass(frozen=True)
class Reached:
    """When a plan's training is expected to reach the target."""

    learned: Learned
    seconds: float | None
    low_s: float | None
    high_s: float | None  # None: perhaps never


@dataclass(frozen=True, eq=False)
class Learning:
    """What a search knows of a training. `noise` is the gradient noise scale in recorded batches of
    all workers; None: not known."""

    progress: Progress
    noise: float | None = None
    cost: Callable[[Strategy], LearningCost | None] = learning_cost_of
    _known: dict[tuple[float, float], Batches | None] = field(default_factory=dict, repr=False)

    def refusal(self, change: Strategy) -> str | None:
        """Why nothing is known of training under it; None where something is."""
        if change.effect is Effect.EXACT:
            return None
        if change.resizes:
            return None if self.noise is not None else _NO_NOISE
        return None if self.cost(change) is not None else _not_measured(change)

    def expected(self, plan: Sequence[Strategy], samples: float) -> Learned:
        """Of a plan with so many recorded batches in a step; of one with a part of which nothing is
        known (from a file of an earlier search), that it never gets there."""
        if any(self.refusal(change) for change in plan):
            return Learned(None)
        costs = [cost for change in plan if (cost := self._cost(change)) is not None]
        points = sum(max(0.0, cost.points) for cost in costs)
        error = hypot(*(cost.error_points for cost in costs)) if costs else 0.0
        growth = 1.0 if self.noise is None else (samples + self.noise) / (1 + self.noise)
        found = self._batches(round(points / 100, 6), round(error / 100, 6))
        return Learned(found.times(growth) if found else None, points, error, growth)

    def words(self, change: Strategy) -> str:
        """What one part of a plan does to learning; empty where it does nothing."""
        if change.effect is Effect.EXACT:
            return ""
        if change.resizes:
            return f"a gradient noise scale of {self.noise:.3g} recorded batches says how it learns"
        cost = self.cost(change)
        if cost is None:
            return ""
        return (
            f"cost {cost.points:.2f} ± {2 * cost.error_points:.2f} points of accuracy where it was "
            f"measured ({cost.seeds} seeds)"
        )

    def _cost(self, change: Strategy) -> LearningCost | None:
        if change.effect is Effect.EXACT or change.resizes:
            return None
        return self.cost(change)

    def _batches(self, lost: float, error: float) -> Batches | None:
        if (lost, error) not in self._known:
            self._known[lost, error] = self.progress.batches(lost, error)
        return self._known[lost, error]


def to_target_ns(learned: Learned, batch_ns: float) -> float:
    """Infinity where it never gets there."""
    return learned.batches.middle * batch_ns if learned.batches is not None else inf


def reached(learned: Learned, batch_ns: float, step_off: tuple[float, float]) -> Reached:
    """With the interval of the curve and that of the step (`step_off`: its low and its high end as
    shares of it). Both errors are independent, so their shares add in squares."""
    if learned.batches is None:
        return Reached(learned, None, None, None)
    batches, seconds = learned.batches, learned.batches.middle * batch_ns / 1e9
    early = hypot(1 - batches.low / batches.middle, 1 - step_off[0])
    low_s = max(0.0, seconds * (1 - early))
    if batches.high is None:
        return Reached(learned, seconds, low_s, None)
    late = hypot(batches.high / batches.middle - 1, step_off[1] - 1)
    return Reached(learned, seconds, low_s, seconds * (1 + late))


_NO_NOISE = (
    "how another batch learns is not known; measure the gradient noise scale with `paceline learn "
    "noise -o noise.json -- COMMAND`, and give it (--noise noise.json)"
)


def _not_measured(change: Strategy) -> str:
    mine = [str(each) for each in learning_costs() if name_of(type(each)) == name_of(type(change))]
    at = f"; it was at {', '.join(mine)}" if mine else ""
    return f"what it costs in accuracy was not measured{' at these settings' * bool(mine)}{at}"
