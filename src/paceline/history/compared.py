"""Predicted against measured, by strategy and over time."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from paceline.history.entry import Entry
from paceline.history.learning import names

NONE = "none"


@dataclass(frozen=True)
class Errors:
    """Of all predictions under one strategy, beside others or alone: predicted over measured, less
    one."""

    strategy: str  # its name; "none" for plans without any
    count: int
    mean_error: float  # signed: below 0, steps take longer than predicted
    mean_size: float
    worst: float
    last: float


def by_strategy(entries: Sequence[Entry]) -> list[Errors]:
    """The strategies that are most off come first."""
    found: dict[str, list[float]] = {}
    for entry in entries:
        if entry.error is not None:
            for name in sorted(names(entry.strategies)) or [NONE]:
                found.setdefault(name, []).append(entry.error)
    return sorted((_errors(*each) for each in found.items()), key=lambda e: -e.mean_size)


def _errors(strategy: str, errors: Sequence[float]) -> Errors:
    return Errors(
        strategy,
        len(errors),
        statistics.mean(errors),
        statistics.mean(map(abs, errors)),
        max(errors, key=abs),
        errors[-1],
    )
