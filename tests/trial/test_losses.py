"""Does the loss stay where a plan's effect says?"""

from collections.abc import Callable

import pytest

from paceline.strategies import Effect
from paceline.trial import Side, Timetable
from paceline.trial.blocks import in_turn
from paceline.trial.losses import LossCheck, loss_check
from paceline.trial.series import SeenStep, Series

BLOCKS = in_turn(Timetable(a_side=30, block=5))
PLACES = [(b, past >= block.warm) for b, block in enumerate(BLOCKS)
          for past in range(block.warm + block.steps)]  # fmt: skip


def plain(index: int) -> float:
    """Training makes it fall."""
    return 2.0 * 0.999**index


def checked(effect: Effect, under: Callable[[float], float], *, seeded: bool = True) -> LossCheck:
    """Of a trial whose losses under the plan are changed so."""
    steps = tuple(
        SeenStep(i, 1e7, 1e7, b, counts,
                 under(plain(i)) if BLOCKS[b].side is Side.PLAN else plain(i))
        for i, (b, counts) in enumerate(PLACES)
    )  # fmt: skip
    before = {i: plain(i) if seeded else plain(i) * 1.1 for i in range(45)}
    return loss_check(Series(BLOCKS, steps), effect, before)


@pytest.mark.parametrize(
    ("effect", "factor", "held"),
    [
        (Effect.EXACT, 1 + 1e-7, True),
        (Effect.EXACT, 1 + 1e-4, False),
        (Effect.LOSSY, 1.01, True),
        (Effect.LOSSY, 1.3, False),
        (Effect.RELAXED, 1.1, True),
        (Effect.RELAXED, 1.5, False),
    ],
)
def test_losses_of_a_job_that_repeats_itself_are_compared_step_by_step(
    effect: Effect, factor: float, held: bool
) -> None:
    found = checked(effect, lambda loss: loss * factor)
    assert found.held is held
    assert "run without the plan" in found.said


@pytest.mark.parametrize(("factor", "held"), [(1.0, True), (2.0, False)])
def test_other_jobs_are_judged_by_blocks_that_stand_beside_each_other(
    factor: float, held: bool
) -> None:
    for effect in Effect:
        found = checked(effect, lambda loss: loss * factor, seeded=False)
        assert found.held is held
        assert "from that without the plan" in found.said


def test_a_loss_that_is_no_number_is_off_and_one_that_nobody_sees_is_not_judged() -> None:
    assert checked(Effect.RELAXED, lambda _: float("nan")).held is False
    steps = tuple(SeenStep(i, 1e7, 1e7, b, c) for i, (b, c) in enumerate(PLACES))
    unseen = loss_check(Series(BLOCKS, steps), Effect.EXACT, {})
    assert (unseen.held, unseen.seen) == (None, False)
