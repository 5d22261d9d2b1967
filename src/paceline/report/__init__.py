"""Showing results: text for terminals, Perfetto for timelines. One format a file."""

from paceline.report.perfetto import Times, write_perfetto
from paceline.report.progress import tracked
from paceline.report.summary import Summary, summarise

__all__ = ["Summary", "Times", "summarise", "tracked", "write_perfetto"]
