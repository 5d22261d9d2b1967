"""Does the loss stay where a plan's effect says?

An exact plan leaves the numbers as they are but for rounding. That can be judged where both start
from the same state: a job that seeds its random numbers has the same losses, run after run, up to
the first step under the plan, and for a few steps behind it an exact plan must keep them; later
ones part by chaos alone, also under a harmless change of the order of sums. Of other plans
the mean over more such pairs counts. Jobs that do not repeat themselves are judged by the level:
blocks of both sides take turns in one training, so that its progress is the same for both. Wrong
where a plan harms training later than a trial of some dozen steps shows.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite, log
from statistics import mean

from paceline.strategies import Effect
from paceline.trial.blocks import Side
from paceline.trial.series import Sample, Series
from paceline.trial.significance import gain_of

EXACT_WITHIN = 1e-5  # relative, in the first steps behind a switch
FIRST = 3  # steps under the plan
ENOUGH = 10  # pairs of losses by which plans that are not exact are judged
TINY = 1e-12
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
    pairs = _pairs(series, before)
    if pairs and effect is Effect.EXACT:
        return _first_steps(pairs)
    return _paired(pairs, effect) if len(pairs) >= ENOUGH else _by_level(series, effect)


def _pairs(series: Series, before: Mapping[int, float]) -> list[tuple[float, float]]:
    """Losses since the plan was first in force, each with that of the same step of a run without
    it; none where those runs differed before."""
    entered = next((s.index for s in series.steps if _planned(series, s.block)), None)
    both = [
        (s.index, s.loss, before[s.index])
        for s in series.steps
        if s.loss is not None and s.index in before
    ]
    if entered is None:
        return []
    same = [loss == other for index, loss, other in both if index < entered]
    later = [(loss, other) for index, loss, other in both if index >= entered]
    return later if same and all(same) else []


def _first_steps(pairs: Sequence[tuple[float, float]]) -> LossCheck:
    off = max(abs(loss - other) / max(abs(other), TINY) for loss, other in pairs[:FIRST])
    return LossCheck(
        off <= EXACT_WITHIN,
        f"the losses of a run without the plan are met within {off:.1e} in its first steps "
        f"(exact: {EXACT_WITHIN:g})",
    )


def _paired(pairs: Sequence[tuple[float, float]], effect: Effect) -> LossCheck:
    """The same batches from the same state: what differs is the plan's."""
    whole = max(abs(mean(other for _, other in pairs)), TINY)
    off = mean(loss - other for loss, other in pairs) / whole
    return LossCheck(
        off <= BANDS[effect],
        f"over the first {len(pairs)} steps the loss lies {off:+.1%} from that of a run without "
        f"the plan ({effect.value}: up to {BANDS[effect]:+.0%})",
    )


def _planned(series: Series, block: int) -> bool:
    return series.blocks[block].side is Side.PLAN


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
    if off <= band or (effect is Effect.EXACT and least <= band):
        return LossCheck(True, told)  # against an exact plan something must speak
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
