"""The difference of two runs in a terminal: what changed most first."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from paceline.compare import Difference
from paceline.compare.difference import DifferenceRow
from paceline.report.text.difference_words import basis_lines, cause_words, verdict_line
from paceline.report.text.quantities import duration, share
from paceline.report.text.table import plain_table, short

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
        if table.row_count:
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
    rows = (
        (
            cause_words(cause),
            signed(cause.share_ns),
            share(cause.share_ns, found.change_ns),
            duration(cause.noise_ns) if cause.noise_ns else "",
        )
        for cause in found.causes[:top]
    )
    return plain_table(
        "what changed most", ("cause", "time", "of the change", "give or take"), rows
    )


def _rows(found: Difference, title: str, rows: tuple[DifferenceRow, ...], top: int) -> "Table":
    told = (
        (short(row.name), duration(row.before_ns), duration(row.after_ns), signed(row.change_ns))
        for row in rows[:top]
        if abs(row.change_ns) > _NOTICED * found.before_ns
    )
    return plain_table(title, ("", "before", "after", "change"), told)


def _ranks(found: Difference, top: int) -> "Table":
    columns = ("rank", "computes", "transfers", "waits for ranks", "input", "host, cores and gaps")
    rows = (
        (
            str(row.rank),
            signed(row.compute_ns),
            signed(row.transfer_ns),
            signed(row.for_ranks_ns),
            signed(row.input_ns),
            signed(row.other_ns),
        )
        for row in found.ranks[:top]
    )
    return plain_table("by rank; a row sums to the change of the recorded step", columns, rows)


def signed(ns: float) -> str:
    """`+1.20 ms`."""
    return f"{'+' if ns >= 0 else '-'}{duration(abs(ns))}"
