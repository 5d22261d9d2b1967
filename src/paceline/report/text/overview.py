"""An overview in a terminal, in reading order."""

from typing import TYPE_CHECKING

from paceline.predict import PeakMemory
from paceline.report.overview import Overview
from paceline.report.text.memory import peak_line, ranks_table
from paceline.report.text.run import show_run
from paceline.report.text.step import show_summary

if TYPE_CHECKING:
    from rich.console import Console


def show_overview(found: Overview, console: "Console", top: int) -> None:
    """The step, its communication, and each rank's memory where it is known."""
    show_summary(found.summary, console)
    console.print()
    show_run(found.run, console, top)
    if found.peaks:
        held = PeakMemory(found.peaks)
        console.print()
        console.print(ranks_table(held))
        console.print(peak_line(held), markup=False, soft_wrap=True)
