"""Showing results: text for terminals, Perfetto for timelines. One format a file."""

from paceline.report.perfetto import Times, write_perfetto
from paceline.report.progress import tracked, working
from paceline.report.summary import Draws, Summary, summarise, summarise_draws

__all__ = [
    "Draws",
    "Summary",
    "Times",
    "summarise",
    "summarise_draws",
    "tracked",
    "working",
    "write_perfetto",
]
