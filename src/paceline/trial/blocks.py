"""The order in which a job's steps run: in rounds, with and without a plan, in random order.

A round has two blocks of the job as it is and two under the plan. Of the first two, one is counted
as the baseline and one as the baseline again: how far they differ is the noise of the job against
itself. Chance alone decides who stands where, so that a test that shuffles the labels within
rounds is right whatever drifts, bursts and echoes the machine has.
"""

import random
from collections.abc import Sequence
from enum import Enum
from math import ceil

import msgspec


class Side(str, Enum):
    """What a block's steps run under."""

    BASELINE = "baseline"
    AGAIN = "again"  # the baseline too, under another name
    PLAN = "plan"


ROUND = (Side.BASELINE, Side.AGAIN, Side.PLAN, Side.PLAN)
SETTLING = -1  # the round of steps before the first one


class TrialBlock(msgspec.Struct, frozen=True):
    """So many steps of one side. Those just behind a switch are left out of what is measured."""

    round: int
    side: Side
    warm: int
    steps: int


class Timetable(msgspec.Struct, frozen=True):
    """How much is measured: `a_side` steps with the plan, and as many without."""

    a_side: int = 60
    block: int = 10  # steps measured in a block
    warm: int = 2  # left out behind each switch
    settle: int = 5  # the job's first steps, left out
    period: int = 1  # steps after which the job under the plan repeats itself
    seed: int = 0

    @property
    def rounds(self) -> int:
        """Three at least: fewer leave chance too few orders to be told from."""
        return max(3, ceil(self.a_side / (2 * _whole(self.block, self.period))))


def in_turn(table: Timetable) -> tuple[TrialBlock, ...]:
    """Blocks that take turns in one run."""
    draw = random.Random(table.seed)
    return (
        TrialBlock(SETTLING, Side.BASELINE, table.settle, 0),
        *(
            _block(table, number, side)
            for number in range(table.rounds)
            for side in draw.sample(ROUND, len(ROUND))
        ),
    )


def apart(table: Timetable) -> tuple[tuple[TrialBlock, ...], ...]:
    """One block for each of several runs, for plans that cannot be left within one: four of each
    side in random order, the fewest by which a test at one in sixty can be passed."""
    draw = random.Random(table.seed)
    sides = [Side.BASELINE, Side.AGAIN] * 2 + [Side.PLAN] * 4
    long = Timetable(a_side=table.a_side, block=max(table.block, ceil(table.a_side / 4)),
                     warm=table.settle + table.warm, period=table.period)  # fmt: skip
    return tuple((_block(long, 0, side),) for side in draw.sample(sides, len(sides)))


def steps_of(blocks: Sequence[TrialBlock]) -> int:
    """Optimizer steps that a run takes to go through them."""
    return sum(block.warm + block.steps for block in blocks)


def _block(table: Timetable, number: int, side: Side) -> TrialBlock:
    """In whole periods of the plan."""
    return TrialBlock(
        number, side, _whole(table.warm, table.period), _whole(table.block, table.period)
    )


def _whole(steps: int, period: int) -> int:
    return period * ceil(steps / period)
