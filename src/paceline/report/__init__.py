"""Showing results: text for terminals, Perfetto for timelines. One format a file."""

from paceline.report.perfetto import Times, write_perfetto
from paceline.report.progress import tracked

__all__ = ["Times", "tracked", "write_perfetto"]
