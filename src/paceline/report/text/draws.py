"""Step times as distributions: after a change, and before it where that is known."""

from typing import TYPE_CHECKING

from paceline.report.summary import Draws
from paceline.report.text.quantities import duration

if TYPE_CHECKING:
    from rich.table import Table


def draws_table(before: Draws | None, after: Draws) -> "Table":
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    table.add_column(f"{after.count:,} draws")
    for name in ("p5", "median", "mean", "p95"):
        table.add_column(name, justify="right")
    rows = [("before", before)] if before else []
    for name, draws in (*rows, ("after", after)):
        values = (draws.p5_ns, draws.median_ns, draws.mean_ns, draws.p95_ns)
        table.add_row(name, *(duration(value) for value in values))
    return table
