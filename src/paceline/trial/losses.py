"""Does the loss stay where a plan's effect says?

An exact plan leaves the numbers as they are but for rounding. That can be judged where both start
from the same state: a job that seeds its random numbers has the same losses, run after run, up to
the first step under the plan, and for a few steps behind it an exact plan must keep them; later
ones part by chaos alone, also under a harmless change of the order of sums. Plans that are not
exact, and jobs that do not repeat themselves, are judged by the level: blocks of both sides take
turns in one training, so that its progress is the same for both.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import isfinite, log
from statistics import mean

from paceline.strategies import Effect
from paceline.trial.blocks import Side
from paceline.trial.series import Sample, Series
from paceline.trial.significance import gain_of

EXACT_WITHIN = 1e-5  # relative, in the first steps behind a switch
FIRST = 3  # steps of the first block under the plan
BANDS = {Effect.EXACT: 0.02, Effect.LOSSY: 0.05, Effect.RELAXED: 0.10}
"""By how much the loss under a plan may lie above that without it."""


@dataclass(frozen=True)
class LossCheck:
    """`held` is None where it cannot be told."""

    held: bool | None
    said: str
    seen: bool = True  # the script differentiates a scalar


def loss_check(series: Series, effect: Effect, before: Mapping[int, float]) -> LossCheck:
    """Of a trial. `before` are the losses of the job without a plan, by step, from another run."""
    lost = [s.loss for s in series.steps if s.loss is not None]
    if not lost:
        return LossCheck(None, "no loss was seen: the script differentiates no scalar", False)
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
    """One side's losses against the other's, block beside block of a round: training makes both
    fall. By logarithms, tested as step times are."""
    found = gain_of(list(_samples(series)))
    if found is None:
        return LossCheck(None, "too few losses above zero were seen to compare")
    off, least, most = (1 / (1 + gain) - 1 for gain in (found.gain, found.high, found.low))
    band = BANDS[effect]
    told = (
        f"the loss lies {off:+.1%} ({least:+.1%} to {most:+.1%}) from that without the plan "
        f"({effect.value}: up to {band:+.0%})"
    )
    if off <= band:
        return LossCheck(True, told)
    return LossCheck(False if least > band else None, told)


def _samples(series: Series) -> Iterator[Sample]:
    """The mean loss of each block of the rounds that have one in every block."""
    means: dict[int, list[Sample]] = {}
    for number, block in enumerate(series.blocks):
        lost = [s.loss for s in series.steps if s.block == number and s.counted]
        seen = [loss for loss in lost if loss is not None and loss > 0]
        if block.steps and len(seen) == block.steps:
            row = means.setdefault(block.round, [])
            row.append(Sample(block.round, block.side, log(mean(seen))))
    for number, row in means.items():
        if len(row) == sum(1 for block in series.blocks if block.round == number):
            yield from row
