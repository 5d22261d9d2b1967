"""`Arm`: runs that differ by their seeds alone."""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from math import sqrt
from statistics import mean, stdev
from typing import Any

from paceline.learn.errors import LearnError
from paceline.learn.record import LearnRun


@dataclass(frozen=True)
class Arm:
    """At least one run; each has another seed."""

    runs: tuple[LearnRun, ...]

    def __post_init__(self) -> None:
        seeds = [run.seed for run in self.runs]
        twice = next((seed for seed in seeds if seeds.count(seed) > 1), None)
        if twice is not None:
            raise LearnError(
                f"seed {twice} of {self.first.algorithm} was given twice, and the same seed tells "
                "nothing of others; give one of the two"
            )

    @property
    def accuracy(self) -> float:
        return mean(run.accuracy for run in self.runs)

    @property
    def error(self) -> float:
        """Of the mean: the test samples are a draw, and so are the seeds."""
        share, samples = self.accuracy, max(1, self.first.test_samples)
        drawn = share * (1 - share) / samples
        seeds = stdev([run.accuracy for run in self.runs]) ** 2 if len(self.runs) > 1 else 0.0
        return sqrt(drawn + seeds / len(self.runs))

    @property
    def sent_bytes(self) -> float:
        return mean(run.sent_bytes for run in self.runs)

    @property
    def rounds(self) -> int:
        """Of the shortest."""
        return min(len(run.rounds) for run in self.runs)

    @property
    def first(self) -> LearnRun:
        return self.runs[0]


def arms(runs: Sequence[LearnRun]) -> tuple[Arm, ...]:
    """By what was asked for and by length: how far runs got compares at their ends."""
    return _by(runs, [(*run.asked.items(), len(run.rounds)) for run in runs])


def arms_of_any_length(runs: Sequence[LearnRun]) -> tuple[Arm, ...]:
    """By what was asked for: curves compare as far as they go."""
    return _by(runs, [tuple(run.asked.items()) for run in runs])


def names_of(asked: Sequence[Mapping[str, Any]]) -> list[str]:
    """The algorithm of each, and what else sets them apart."""
    apart = [name for name in _WORDS if len({each[name] for each in asked}) > 1]
    return [
        ", ".join([each["algorithm"], *(_WORDS[name].format(each[name]) for name in apart)])
        for each in asked
    ]


_WORDS = {
    "model": "{}",
    "partition": "{}",
    "clients": "{} clients",
    "samples": "{:,} samples",
    "per_round": "{} a round",
    "drops": "{:g} dropped",
}


def _by(runs: Sequence[LearnRun], keys: Sequence[Hashable]) -> tuple[Arm, ...]:
    found: dict[Hashable, list[LearnRun]] = {}
    for run, key in zip(runs, keys):
        found.setdefault(key, []).append(run)
    return tuple(Arm(tuple(mine)) for mine in found.values())
