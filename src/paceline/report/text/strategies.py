"""Strategies as a table: what each is, what it does to the numbers, and whether it fits a job."""

from collections.abc import Mapping, Sequence
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


def strategies_table(
    rows: Sequence[StrategyRow], job: str, families: Mapping[str, frozenset[str]]
) -> Table:
    """`job` is the run that they were held against; empty for none. Families are strategies that
    are named together, such as all codecs."""
    table = Table(box=None)
    table.add_column("strategy", no_wrap=True)
    for name in ("what it is", "effect", "applied", "not beside"):
        table.add_column(name, overflow="fold")
    if job:
        table.add_column(f"fits {job}")
    for row in rows:
        cells = [row.name, row.line, row.effect, "yes" if row.applies else "predicted only"]
        beside = ", ".join(_together(row, families))
        table.add_row(*cells, beside, *([row.refusal or "yes"] if job else []))
    return table


def _together(row: StrategyRow, families: Mapping[str, frozenset[str]]) -> list[str]:
    """What excludes it, whole families by their names."""
    left = set(row.conflicts)
    whole = [name for name, members in families.items() if members - {row.name} <= left]
    for name in whole:
        left -= families[name]
    return [*whole, *sorted(left)]
