"""What was measured of each strategy, kept with the package: how far predictions of its step were
off, and what it costs in accuracy.

`benchmarks/tables.py` writes both files from the newest results. `measured.json` is of jobs
recorded once and then run in the lab under each strategy, on other links and with other numbers of
workers. `learned.json` is of one small classifier (`benchmarks/accuracy/convergence.py`), trained
with and without each strategy that is not exact: another model may pay more or less.
"""

from collections.abc import Mapping
from functools import cache
from pathlib import Path

import msgspec

from paceline.errors import PacelineError
from paceline.strategies.named import parse
from paceline.strategies.strategy import Strategy


class Accuracy(msgspec.Struct, frozen=True):
    """Errors of predicted steps, as shares of the measured ones, without sign."""

    rows: int  # settings in which the strategy stood alone in its plan
    mean_error: float
    worst_error: float


class LearningCost(msgspec.Struct, frozen=True):
    """How far test accuracy lay below that of plain training with the same seeds and as many
    samples, in points; below 0 where it was higher."""

    points: float
    error_points: float  # standard error of that mean
    seeds: int


class _Kept(msgspec.Struct, frozen=True):
    date: str
    strategies: dict[str, Accuracy]


class _Learned(msgspec.Struct, frozen=True):
    date: str
    costs: dict[str, LearningCost]  # by strategy with its settings, as text


def accuracy_of(name: str) -> Accuracy | None:
    """None where the strategy was not measured yet."""
    return _kept().strategies.get(name)


def learning_cost_of(change: Strategy) -> LearningCost | None:
    """None where it was not measured at these settings."""
    return learning_costs().get(change)


@cache
def learning_costs() -> Mapping[Strategy, LearningCost]:
    """All that was measured."""
    return costs_in(Path(__file__).with_name("learned.json").read_bytes())


def costs_in(learned: bytes) -> Mapping[Strategy, LearningCost]:
    """Of such a file; texts of settings that there no longer are do not count."""
    found: dict[Strategy, LearningCost] = {}
    for text, cost in msgspec.json.decode(learned, type=_Learned).costs.items():
        try:
            found[parse(text)] = cost
        except PacelineError:
            continue
    return found


@cache
def _kept() -> _Kept:
    return msgspec.json.decode(Path(__file__).with_name("measured.json").read_bytes(), type=_Kept)
