"""Recorded steps that took turns with plain ones: what a plain step takes beside them.

A neighbour's burst lasts longer than a step. Plain steps seconds before the recorded ones met
another; those right beside a stretch of recorded steps met the same. So each stretch is set beside
its own neighbours, and the median of these ratios counts: one burst spoils one of them.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from statistics import mean, median
from typing import Final

from paceline.record.sidecar import Mode, Sidecar, Step
from paceline.trace.plain import wall_ns
from paceline.trace.refaults import refaults_ns

LEAST: Final = 2  # stretches that can be told from one


@dataclass(frozen=True)
class Turn:
    """A stretch of recorded steps, by their indices, and the plain steps right before and after."""

    recorded: tuple[int, ...]
    plain: tuple[int, ...]


def turns_of(facts: Sidecar) -> list[Turn]:
    """In order of time; none where no plain step touches a recorded one."""
    runs = _runs([step for step in facts.of(Step) if step.mode in (Mode.PLAIN, Mode.RECORDED)])
    found = []
    for number, (mode, steps) in enumerate(runs):
        if mode is Mode.RECORDED:
            near = [*runs[max(0, number - 1) : number], *runs[number + 1 : number + 2]]
            plain = tuple(i for _, each in near if _touch(each, steps) for i in each)
            found.append(Turn(steps, plain))
    return [turn for turn in found if turn.plain]


def beside_recorded(sidecars: Sequence[Sidecar], of: Callable[[Step], int | None]) -> float | None:
    """What a plain step would have had of something where the median recorded step ran, the mean
    over the ranks. None where steps took no turns, or some rank's did not count it."""
    values = _by_step(sidecars, of)
    return None if values is None else beside(sidecars, values)


def beside(sidecars: Sequence[Sidecar], values: Mapping[int, float]) -> float | None:
    """The same of values by step; with the page faults that recording spared plain steps too."""
    turns = turns_of(sidecars[0]) if sidecars else []
    whole = [t for t in turns if values.keys() >= {*t.recorded, *t.plain}]
    if len(whole) < LEAST:
        return None
    share = median(_mean(values, turn.plain) / _mean(values, turn.recorded) for turn in whole)
    usual = median(values[index] for turn in whole for index in turn.recorded)
    return share * usual + _spared_ns(sidecars)


def walls(sidecars: Sequence[Sidecar]) -> dict[int, float]:
    """How long each plain and each recorded step took, the mean over the ranks."""
    return _by_step(sidecars, wall_ns) or {}


def _spared_ns(sidecars: Sequence[Sidecar]) -> float:
    """What page faults cost a step before the recording beyond one in it, the mean of the ranks."""
    return mean(float(refaults_ns(one, _recorded(one)).mean()) for one in sidecars)


def _recorded(facts: Sidecar) -> list[int]:
    return [step.index for step in facts.of(Step) if step.mode is Mode.RECORDED]


def _by_step(
    sidecars: Sequence[Sidecar], of: Callable[[Step], int | None]
) -> dict[int, float] | None:
    """By index the mean over the ranks, of the steps that all of them have and that are steady."""
    found: dict[int, list[int]] = {}
    for one in sidecars:
        for step in one.of(Step):
            if step.mode in (Mode.PLAIN, Mode.RECORDED) and step.steady:
                value = of(step)
                if value is None:
                    return None
                found.setdefault(step.index, []).append(value)
    return {index: mean(each) for index, each in found.items() if len(each) == len(sidecars)}


def _runs(steps: Sequence[Step]) -> list[tuple[Mode, tuple[int, ...]]]:
    """Neighbouring steps of one mode."""
    placed = enumerate(steps)
    grouped = groupby(placed, key=lambda at: (at[1].mode, at[1].index - at[0]))
    return [(mode, tuple(step.index for _, step in each)) for (mode, _), each in grouped]


def _touch(one: Sequence[int], other: Sequence[int]) -> bool:
    return one[-1] + 1 == other[0] or other[-1] + 1 == one[0]


def _mean(values: Mapping[int, float], steps: Sequence[int]) -> float:
    return mean(values[index] for index in steps)
