"""The whole answer of `paceline show`, in reading order."""

from typing import TYPE_CHECKING

from paceline.report.summary import Summary
from paceline.report.text.breakdown import breakdown_table
from paceline.report.text.headline import headline
from paceline.report.text.lanes import lanes_table
from paceline.report.text.memory import memory_table
from paceline.report.text.path import path_tables

if TYPE_CHECKING:
    from rich.console import Console, RenderableType


def show_summary(summary: Summary, console: "Console") -> None:
    console.print(headline(summary), markup=False, soft_wrap=True)
    tables: list[RenderableType] = [breakdown_table(summary)]
    tables += [*path_tables(summary), lanes_table(summary)]
    if summary.memory:
        tables.append(memory_table(summary))
    for table in tables:
        console.print()
        console.print(table)
