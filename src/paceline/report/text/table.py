"""A plain table: a title, one column to the left, all others to the right."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from rich.table import Table

_SHORT: Final = 48
_BARS: Final = " ▁▂▃▄▅▆▇█"


@dataclass(frozen=True)
class TableRows:
    """A table as text, for a terminal and for a page."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    @staticmethod
    def of(title: str, columns: Sequence[str], rows: Iterable[Sequence[str]]) -> "TableRows":
        return TableRows(title, tuple(columns), tuple(tuple(row) for row in rows))

    def table(self) -> "Table":
        return plain_table(self.title, self.columns, self.rows)


def plain_table(title: str, columns: Sequence[str], rows: Iterable[Sequence[str]]) -> "Table":
    """Names of the columns, then the rows as text; nothing in them is markup."""
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, title=Text(title), title_justify="left")
    for number, name in enumerate(columns):
        table.add_column(name, justify="right" if number else "left")
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))
    return table


@dataclass(frozen=True)
class Fitted:
    """What of a table a terminal has room for, with no number cut."""

    shown: TableRows
    name_width: int  # of the first column, whose words wrap
    dropped: tuple[str, ...]  # columns

    def table(self) -> "Table":
        made = self.shown.table()
        made.columns[0].width = self.name_width
        for column in made.columns[1:]:
            column.no_wrap = True
        return made


def fitted(rows: TableRows, width: int, first_to_go: Sequence[str]) -> Fitted:
    """The table without so many of the named columns, in that order, that it fits the width; what
    is left is as wide as its numbers are."""
    dropped: tuple[str, ...] = ()
    for name in (*first_to_go, ""):
        left = _without(rows, dropped)
        name_width = min(_widths(left)[0], _LONGEST)
        numbers = sum(_GAP + size for size in _widths(left)[1:])
        if not name or numbers + min(name_width, _LEAST) <= width:
            break
        dropped = (*dropped, name)
    return Fitted(left, min(name_width, max(width - numbers, _WORD)), dropped)


_GAP: Final = 2
_LONGEST: Final = 44
_LEAST: Final = 24
"""Of the first column, before another one goes."""
_WORD: Final = 12
"""A hundred millions with their commas is not cut."""


def _widths(rows: TableRows) -> list[int]:
    return [max(map(len, column)) for column in zip(rows.columns, *rows.rows)]


def _without(rows: TableRows, dropped: Sequence[str]) -> TableRows:
    keep = [at for at, name in enumerate(rows.columns) if name not in dropped]
    columns, *body = (tuple(row[at] for at in keep) for row in (rows.columns, *rows.rows))
    return TableRows(rows.title, columns, tuple(body))


def short(name: str, most: int = _SHORT) -> str:
    """So much of anybody's text, with a mark for what a terminal would obey."""
    kept = name if len(name) <= most else name[: most - 1] + "…"
    return "".join(each if each.isprintable() else "·" for each in kept)


def curve(values: Sequence[float]) -> str:
    """A line of bars, the highest value the full one."""
    top = max(values, default=0.0)
    if top <= 0:
        return ""
    return "".join(_BARS[round((len(_BARS) - 1) * value / top)] for value in values)
