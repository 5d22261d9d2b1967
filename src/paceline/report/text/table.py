"""A plain table: a title, one column to the left, all others to the right."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from rich.table import Table

_SHORT: Final = 48
_BARS: Final = " ▁▂▃▄▅▆▇█"


@dataclass(frozen=True)
class Rows:
    """A table as text, for a terminal and for a page."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    @staticmethod
    def of(title: str, columns: Sequence[str], rows: Iterable[Sequence[str]]) -> "Rows":
        return Rows(title, tuple(columns), tuple(tuple(row) for row in rows))

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
