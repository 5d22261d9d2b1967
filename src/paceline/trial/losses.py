"""Does the loss stay where a plan's effect says?

An exact plan leaves the numbers as they are but for rounding. That can be judged where both start
from the same state: a job that seeds its random numbers has the same losses, run after run, up to
the first step under the plan, and for a few steps behind it an exact plan must keep them; later
ones part by chaos alone, also under a harmless change of the order of sums. Plans that are not
exact, and jobs that do not repeat themselves, are judged by the level: blocks of both sides take
turns in one training, so that its progress is the same for both.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from math import isfinite, sqrt
from statistics import mean, stdev

from paceline.strategies import Effect
from paceline.trial.blocks import Side
from paceline.trial.series import Series

EXACT_WITHIN = 1e-5  # relative, in the first steps behind a switch
FIRST = 3  # steps of the first block under the plan
BANDS = {Effect.EXACT: 0.02, Effect.LOSSY: 0.05, Effect.RELAXED: 0.10}
"""By how much the mean loss under a plan may lie above that without it, beyond its own noise."""


@dataclass(frozen=True)
class LossCheck:
    """`held` is None where no loss was seen."""

    held: bool | None
    said: str


def loss_check(series: Series, effect: Effect, before: Mapping[int, float]) -> LossCheck:
    """Of a trial. `before` are the losses of the job without a plan, by step, from another run."""
    lost = [s.loss for s in series.steps if s.loss is not None]
    if not lost:
        return LossCheck(None, "no loss was seen: the script differentiates no scalar")
    if not all(map(isfinite, lost)):
        return LossCheck(False, "the loss is no longer finite")
    if effect is Effect.EXACT and (off := _parted(series, before)) is not None:
        return LossCheck(
            off <= EXACT_WITHIN,
            f"the losses of a run without the plan are met within {off:.1e}, relative "
            f"(exact: {EXACT_WITHIN:g})",
        )
    return _by_level(series, effect)


def _parted(series: Series, before: Mapping[int, float]) -> float | None:
    """How far the plan's first steps are from those without it; None where the runs differed
    before, or where there is nothing to compare."""
    entered = next((s.index for s in series.steps if _planned(series, s.block)), None)
    if entered is None:
        return None
    last = entered + FIRST
    pairs = {
        s.index: _relative(s.loss, before[s.index])
        for s in series.steps
        if s.index < last and s.loss is not None and s.index in before
    }
    same = [off for index, off in pairs.items() if index < entered]
    under = [off for index, off in pairs.items() if index >= entered]
    return max(under) if same and max(same) == 0.0 and under else None


def _planned(series: Series, block: int) -> bool:
    return series.blocks[block].side is Side.PLAN


def _relative(one: float, other: float) -> float:
    return abs(one - other) / max(abs(other), 1e-12)


def _by_level(series: Series, effect: Effect) -> LossCheck:
    """The mean of one side's losses against the other's."""
    plan, rest = (
        [s.loss for s in series.of(*sides) if s.loss is not None]
        for sides in ((Side.PLAN,), (Side.BASELINE, Side.AGAIN))
    )
    if len(plan) < 2 or len(rest) < 2:
        return LossCheck(None, "too few losses were seen to compare")
    scale = max(abs(mean(rest)), 1e-12)
    off = (mean(plan) - mean(rest)) / scale
    noise = 2 * sqrt(stdev(plan) ** 2 / len(plan) + stdev(rest) ** 2 / len(rest)) / scale
    band = BANDS[effect]
    return LossCheck(
        off <= band + noise,
        f"the mean loss lies {off:+.1%} from that without the plan "
        f"({effect.value}: up to {band:+.0%}, noise {noise:.1%})",
    )
