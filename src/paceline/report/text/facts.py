"""Named facts, one a line; a group of facts is indented under its name."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.table import Table


def facts_table(facts: Mapping[str, Any]) -> "Table":
    from rich.table import Table

    table = Table(show_header=False, box=None, pad_edge=False)
    for name, value in facts.items():
        if isinstance(value, Mapping):
            table.add_row(name, "" if value else "none")
            for inner, text in value.items():
                table.add_row(f"  {inner}", _text(text))
        else:
            table.add_row(name, _text(value))
    return table


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return " ".join(_text(item) for item in value)
    if isinstance(value, float):
        return f"{value:.2f}"
    return "not found" if value is None else str(value)
