"""Before and after a change."""

from typing import TYPE_CHECKING

from paceline.report.summary import Summary
from paceline.report.text.breakdown import STATES
from paceline.report.text.quantities import duration

if TYPE_CHECKING:
    from rich.table import Table


def prediction_table(before: Summary, after: Summary) -> "Table":
    """Step time, and where the mean rank spends it."""
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    table.add_column("")
    for name in ("before", "after", "change"):
        table.add_column(name, justify="right")
    _add(table, "step", before.step_ns, after.step_ns)
    for state, (name, _, _) in STATES.items():
        old, new = _mean(before, state), _mean(after, state)
        if old or new:
            _add(table, f"  {name}, mean rank", old, new)
    return table


def _add(table: "Table", name: str, old: float, new: float) -> None:
    change = f"{100 * (new / old - 1):+.1f} %" if old else "new"
    table.add_row(name, duration(old), duration(new), "" if new == old else change)


def _mean(summary: Summary, state: str) -> float:
    shares = [shares[state] for shares in summary.rank_shares.values()]
    return sum(shares) / len(shares)
