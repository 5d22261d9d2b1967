"""`Series`: what all ranks saw of a trial's steps, brought together."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import log
from statistics import mean, median

from paceline.trial.blocks import Side, TrialBlock
from paceline.trial.lines import RankFile


@dataclass(frozen=True)
class SeenStep:
    """One step of the job: the mean over its ranks."""

    index: int
    wall_ns: float
    cpu_ns: float
    block: int
    counted: bool
    loss: float | None = None


@dataclass(frozen=True)
class Sample:
    """One block that was run whole: `value` is the logarithm of what its step took, in ns."""

    round: int
    side: Side
    value: float


@dataclass(frozen=True)
class Series:
    """The steps of a trial in order, and the blocks that they belong to."""

    blocks: tuple[TrialBlock, ...]
    steps: tuple[SeenStep, ...]

    def of(self, *sides: Side) -> list[SeenStep]:
        """Steps that count, of these sides."""
        return [s for s in self.steps if s.counted and self.blocks[s.block].side in sides]


def series_of(ranks: Sequence[RankFile]) -> Series:
    """Steps that every rank has seen; nothing where no rank has begun."""
    if not ranks:
        return Series((), ())
    losses: dict[int, list[float]] = defaultdict(list)
    for one in ranks:
        for told in one.losses:
            losses[told.index].append(told.value)
    steps = [
        SeenStep(
            row[0].index,
            mean(step.wall_ns for step in row),
            mean(step.cpu_ns for step in row),
            row[0].block,
            row[0].counted,
            mean(losses[row[0].index]) if losses[row[0].index] else None,
        )
        for row in zip(*(one.steps for one in ranks))
    ]
    return Series(tuple(ranks[0].began.blocks), tuple(steps))


def samples_of(series: Series, period: int = 1, batch: float = 1.0) -> list[Sample]:
    """Blocks of whole rounds. A plan's steps count in whole periods of it, and by the recorded
    batch: a step under it has `batch` times as many samples."""
    found: dict[int, list[Sample]] = defaultdict(list)
    for number, block in enumerate(series.blocks):
        steps = [s.wall_ns for s in series.steps if s.block == number and s.counted]
        if block.steps and len(steps) == block.steps:
            planned = block.side is Side.PLAN
            taken = _typical(steps, period if planned else 1) / (batch if planned else 1.0)
            found[block.round].append(Sample(block.round, block.side, log(taken)))
    wanted = {number: sum(1 for b in series.blocks if b.round == number) for number in found}
    return [s for number, row in found.items() if len(row) == wanted[number] for s in row]


def merged(runs: Iterable[Series]) -> Series:
    """Runs of one block each as one series, in which their blocks take turns."""
    blocks: list[TrialBlock] = []
    steps: list[SeenStep] = []
    for run in runs:
        for s in run.steps:
            place = s.block + len(blocks)
            steps.append(SeenStep(s.index, s.wall_ns, s.cpu_ns, place, s.counted, s.loss))
        blocks += run.blocks
    return Series(tuple(blocks), tuple(steps))


def _typical(steps_ns: Sequence[float], period: int) -> float:
    """The median of whole periods' means: one burst on a shared machine moves it little."""
    return median(mean(steps_ns[at : at + period]) for at in range(0, len(steps_ns), period))
