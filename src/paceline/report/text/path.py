"""The critical path: what the step's length depends on, by kind, layer and op."""

from typing import TYPE_CHECKING

from paceline.report.summary import Summary
from paceline.report.text.quantities import duration, share

if TYPE_CHECKING:
    from rich.table import Table


def path_tables(summary: Summary) -> list["Table"]:
    """Kinds, layers where they are known, and ops. The kinds' shares sum to the step."""
    tables = [_shares("critical path by kind", "kind", summary.path_by_kind, summary.step_ns)]
    if summary.path_by_layer:
        tables.append(
            _shares("critical path by layer", "layer", summary.path_by_layer, summary.step_ns)
        )
    return [*tables, _ops(summary)]


def _shares(title: str, what: str, shares: dict[str, int], step_ns: int) -> "Table":
    from rich.table import Table

    table = Table(title=title, title_justify="left", box=None, pad_edge=False)
    table.add_column(what)
    table.add_column("time", justify="right")
    table.add_column("of step", justify="right")
    for name, ns in shares.items():
        if ns:
            table.add_row(name, duration(ns), share(ns, step_ns))
    return table


def _ops(summary: Summary) -> "Table":
    from rich.table import Table

    table = Table(title="ops that weigh most on it", title_justify="left", box=None, pad_edge=False)
    table.add_column("op", overflow="ellipsis", max_width=48, no_wrap=True)
    table.add_column("kind")
    table.add_column("times", justify="right")
    table.add_column("time", justify="right")
    table.add_column("of step", justify="right")
    for row in summary.path_ops:
        part = share(row.share_ns, summary.step_ns)
        table.add_row(row.name, row.kind, f"{row.count:,}", duration(row.share_ns), part)
    return table
