"""Entries of a history, and errors by strategy."""

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from paceline.history import Entry, Errors
from paceline.report.text.quantities import duration

if TYPE_CHECKING:
    from rich.table import Table


def entries_table(entries: Sequence[Entry]) -> "Table":
    """One row per entry, in order of time."""
    from rich.markup import escape
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    for name in ("when", "what", "key", "job", "workers", "plan"):
        table.add_column(name, no_wrap=True)
    for name in ("predicted", "measured", "error"):
        table.add_column(name, justify="right", no_wrap=True)
    for entry in entries:
        plan = " + ".join(entry.strategies) or "as recorded"
        table.add_row(
            datetime.fromtimestamp(entry.at_ns / 1e9).strftime("%Y-%m-%d %H:%M"),
            entry.kind.value + (f", {entry.outcome}" if entry.outcome else ""),
            entry.key[:8],
            escape(short(entry.name) or entry.job.model),
            str(entry.job.world_size),
            escape(plan + (f" ({entry.place})" if entry.place else "")),
            duration(entry.predicted.step_ns) if entry.predicted else "",
            duration(entry.measured.step_ns) if entry.measured else "",
            "" if entry.error is None else f"{entry.error:+.1%}",
        )
    return table


def errors_table(errors: Sequence[Errors]) -> "Table":
    """Predicted over measured by strategy."""
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    table.add_column("predicted against measured")
    for name in ("runs", "mean error", "mean size", "worst", "last"):
        table.add_column(name, justify="right")
    for one in errors:
        shares = (one.mean_error, one.mean_size, one.worst, one.last)
        table.add_row(one.strategy, str(one.count), *(f"{share:+.1%}" for share in shares))
    return table


def short(command: str, width: int = 30) -> str:
    """The end of a command, which tells the script and its settings."""
    return command if len(command) <= width else "..." + command[3 - width :]
