"""The difference of two runs in a terminal: what changed most first."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from paceline.compare import Difference
from paceline.compare.difference import Row
from paceline.report.text.difference_words import basis_lines, cause_words, verdict_line
from paceline.report.text.quantities import duration, share

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

_NOTICED: Final = 0.002  # of a step: rows below it are left out


def show_difference(found: Difference, console: "Console", top: int) -> None:
    """The verdict, causes, then where the time went."""
    console.print(verdict_line(found), markup=False, soft_wrap=True, style="bold")
    for line in basis_lines(found):
        console.print(line, markup=False, soft_wrap=True)
    for table in _tables(found, top):
        console.print()
        console.print(table)


def _tables(found: Difference, top: int) -> Iterator["Table"]:
    yield _causes(found, top)
    yield _rows(found, "by class of work, on the path that the step hangs on", found.classes, top)
    layers = tuple(row for row in found.layers if row.name)
    if layers:
        yield _rows(found, "by layer", layers, top)
    if len(found.ranks) > 1:
        yield _ranks(found, top)


def _causes(found: Difference, top: int) -> "Table":
    table = _plain("what changed most")
    for name in ("time", "of the change", "give or take"):
        table.add_column(name, justify="right")
    table.add_column("cause")
    for cause in found.causes[:top]:
        table.add_row(
            signed(cause.share_ns),
            share(cause.share_ns, found.change_ns),
            duration(cause.noise_ns) if cause.noise_ns else "",
            cause_words(cause),
        )
    return table


def _rows(found: Difference, title: str, rows: tuple[Row, ...], top: int) -> "Table":
    table = _plain(title)
    table.add_column("")
    for name in ("before", "after", "change"):
        table.add_column(name, justify="right")
    for row in rows[:top]:
        if abs(row.change_ns) > _NOTICED * found.before_ns:
            after = duration(row.after_ns)
            table.add_row(row.name, duration(row.before_ns), after, signed(row.change_ns))
    return table


def _ranks(found: Difference, top: int) -> "Table":
    table = _plain("by rank; a row sums to the change of the recorded step")
    names = ("computes", "transfers", "waits for ranks", "input", "host, cores and gaps")
    for name in ("rank", *names):
        table.add_column(name, justify="right")
    for row in found.ranks[:top]:
        states = (row.compute_ns, row.transfer_ns, row.for_ranks_ns, row.input_ns, row.other_ns)
        table.add_row(str(row.rank), *(signed(each) for each in states))
    return table


def signed(ns: float) -> str:
    """`+1.20 ms`."""
    return f"{'+' if ns >= 0 else '-'}{duration(abs(ns))}"


def _plain(title: str) -> "Table":
    from rich.table import Table

    return Table(box=None, pad_edge=False, title=title, title_justify="left")
