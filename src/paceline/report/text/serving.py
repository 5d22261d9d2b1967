"""A serving plan beside the choices that one would make without a search."""

from statistics import median
from typing import TYPE_CHECKING, Final

from paceline.report.text.quantities import duration
from paceline.report.text.table import plain_table
from paceline.serve import ServingChoice, ServingProfile

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rich.table import Table

_NOISY: Final = 0.15
"""Spread of the points beyond which a plan rests on chance."""


def serving_table(rows: "Sequence[ServingChoice]", batch: int) -> "Table":
    """Latency of a batch by each choice, and over the first row's."""
    was_run = any(row.runs_ns for row in rows)
    columns = ["", "instances", "latency", "of the plan's"]
    columns += ["measured", "of the plan's"] * was_run
    return plain_table(f"a batch of {batch}", columns, [_cells(row, rows[0]) for row in rows])


def _cells(row: ServingChoice, plan: ServingChoice) -> list[str]:
    ns = row.plan.latency_ns
    cells = [row.name, str(row.plan), duration(ns), f"{ns / plan.plan.latency_ns:.2f}"]
    if row.runs_ns:
        took, best = median(row.runs_ns), median(plan.runs_ns)
        cells += [duration(took), f"{took / best:.2f}"]
    return cells


def profile_lines(profile: ServingProfile) -> "Iterator[str]":
    """How much the points spread, and how far neighbours slow an instance."""
    spread = [(p.high_ns - p.low_ns) / 2 / p.median_ns for p in profile.points]
    yield (
        f"{len(profile.points)} points measured {profile.date}; they spread by "
        f"{median(spread):.1%} (half of p10 to p90), the worst by {max(spread):.1%}"
    )
    if median(spread) > _NOISY:
        yield "the machine was busy: measure again with --fresh-profile when it is quieter"
    factors = [profile.stretch.factor(p.threads, p.batch) for p in profile.points if p.crowded]
    if factors:
        low, high = min(factors), max(factors)
        yield f"busy neighbours make an instance take {low:.2f} to {high:.2f} times as long"
