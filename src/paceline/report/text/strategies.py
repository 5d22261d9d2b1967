"""Strategies as a table: what each is, what it does to the numbers, and whether it fits a job."""

from collections.abc import Sequence
from dataclasses import dataclass

from rich.table import Table


@dataclass(frozen=True)
class StrategyRow:
    """One strategy as it is shown."""

    name: str
    line: str
    effect: str
    applies: bool
    conflicts: tuple[str, ...]
    refusal: str | None  # None: it fits, or no job was given


def strategies_table(rows: Sequence[StrategyRow], job: str) -> Table:
    """`job` is the run that they were held against; empty for none."""
    table = Table("strategy", "what it is", "effect", "applied", "not beside", box=None)
    if job:
        table.add_column(f"fits {job}")
    for row in rows:
        cells = [row.name, row.line, row.effect, "yes" if row.applies else "predicted only"]
        table.add_row(*cells, ", ".join(row.conflicts), *([row.refusal or "yes"] if job else []))
    return table
