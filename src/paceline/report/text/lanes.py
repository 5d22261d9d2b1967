"""How busy the lanes are, those of one name on all ranks together."""

from typing import TYPE_CHECKING

from paceline.report.summary import Summary
from paceline.report.text.quantities import share

if TYPE_CHECKING:
    from rich.table import Table

_MOST = 12


def lanes_table(summary: Summary) -> "Table":
    """Busiest first."""
    from rich.table import Table

    table = Table(title="lanes", title_justify="left", box=None, pad_edge=False)
    table.add_column("lane", overflow="ellipsis", max_width=40, no_wrap=True)
    for name in ("count", "busy", "least", "most", "waiting"):
        table.add_column(name, justify="right")
    for use in summary.lanes[:_MOST]:
        parts = (use.busy_mean, use.busy_least, use.busy_most, use.waiting_mean)
        table.add_row(use.name, f"{use.count:,}", *(share(part, 1) for part in parts))
    if len(summary.lanes) > _MOST:
        table.caption = f"the busiest {_MOST} of {len(summary.lanes):,} names"
    return table
