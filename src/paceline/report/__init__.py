"""Showing results: text for terminals, a page, Perfetto for timelines. One format a file."""

from paceline.callable_room import callable_room
from paceline.report.perfetto import Times, write_perfetto
from paceline.report.progress import tracked, working
from paceline.report.reporting import report
from paceline.report.summary import Draws, Summary, summarise, summarise_draws

__all__ = [
    "Draws",
    "Summary",
    "Times",
    "report",
    "summarise",
    "summarise_draws",
    "tracked",
    "working",
    "write_perfetto",
]

callable_room(__name__)
