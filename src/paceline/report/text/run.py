"""A recorded run in a terminal: steps, communication, who was late, memory; and each collective."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from paceline.replay.communication import Meeting
from paceline.report.run import RunSummary
from paceline.report.text.quantities import duration, share, size

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

_SHORT = 44


def show_run(summary: RunSummary, console: "Console", top: int) -> None:
    """The parts that apply, each after a blank line."""
    console.print(steps_line(summary), markup=False, soft_wrap=True)
    for table in _tables(summary, top):
        console.print()
        console.print(table)
    for note in summary.notes:
        console.print(f"note: {note}", markup=False, soft_wrap=True, style="yellow")


def steps_line(summary: RunSummary) -> str:
    """Steps, their median and spread, and how much of the communication was hidden."""
    moved = summary.communication
    whole = moved.hidden_ns + moved.exposed_ns
    count = len(summary.steps.number)
    steps = f"{count} recorded step{'s' * (count != 1)}"
    text = f"{steps}: median {duration(summary.median_step_ns)}"
    if count > 1:
        text += f", spread (p10 to p90) {100 * summary.spread:.1f} %"
    if whole:
        text += f"; communication {share(moved.hidden_ns, whole) or '0 %'} hidden"
    return text


def collectives_table(found: tuple[Meeting, ...]) -> "Table":
    """One row per collective: how unevenly its members came, and how fast it then was."""
    from rich.table import Table

    table = Table(box=None, pad_edge=False, title="collectives", title_justify="left")
    for name in ("step", "group", "kind", "ranks", "bytes", "skew", "transfer", "bus", "last"):
        table.add_column(name, justify="left" if name in ("group", "kind") else "right")
    for row in found:
        table.add_row(
            str(row.step),
            row.group,
            row.collective,
            str(len(row.ranks)),
            size(row.size_bytes),
            duration(row.skew_ns),
            duration(row.transfer_ns),
            f"{size(row.bus_bytes_per_s)}/s" if row.size_bytes and row.transfer_ns else "",
            f"rank {row.late_rank}" if row.skew_ns else "",
        )
    return table


def _tables(summary: RunSummary, top: int) -> Iterator["Table"]:
    if summary.groups:
        yield _groups(summary, top)
    if summary.stragglers:
        yield _stragglers(summary, top)
    if summary.memory_by_category:
        yield _memory(summary)
    if any(clock.get("offset_ns") for clock in summary.clocks.values()):
        yield _clocks(summary)


def _groups(summary: RunSummary, top: int) -> "Table":
    table = _plain("communication by group, summed over its ranks", "group")
    for name in ("ranks", "meetings", "bytes", "waiting", "transfer", "waiting share"):
        table.add_column(name, justify="right")
    for row in summary.groups[:top]:
        table.add_row(
            row.group,
            str(row.ranks),
            str(row.meetings),
            size(row.size_bytes),
            duration(row.waiting_ns),
            duration(row.transfer_ns),
            share(row.waiting_ns, row.waiting_ns + row.transfer_ns),
        )
    return table


def _stragglers(summary: RunSummary, top: int) -> "Table":
    table = _plain("who was waited for", "rank")
    table.add_column("came last", justify="right")
    table.add_column("others waited", justify="right")
    table.add_column("what it did longer than they")
    table.add_column("by", justify="right")
    for row in summary.stragglers[:top]:
        name = row.op if len(row.op) <= _SHORT else row.op[: _SHORT - 1] + "…"
        by = duration(row.excess_ns) if row.excess_ns else ""
        table.add_row(str(row.rank), f"{row.times} times", duration(row.caused_ns), name, by)
    return table


def _memory(summary: RunSummary) -> "Table":
    table = _plain("memory by category, at its own peak", "category")
    table.add_column("peak", justify="right")
    for name, held in sorted(summary.memory_by_category.items(), key=lambda item: -item[1]):
        table.add_row(name, size(held))
    return table


def _clocks(summary: RunSummary) -> "Table":
    table = _plain("clocks, against the first rank's", "rank")
    for name in ("offset", "drift", "give or take"):
        table.add_column(name, justify="right")
    for rank, clock in summary.clocks.items():
        left = clock.get("interval_ns")
        known = duration(left) if left is not None else "unknown"
        table.add_row(rank, duration(clock["offset_ns"]), f"{clock['drift_ppm']:.1f} ppm", known)
    return table


def _plain(title: str, first: str) -> "Table":
    from rich.table import Table

    table = Table(box=None, pad_edge=False, title=title, title_justify="left")
    table.add_column(first)
    return table
