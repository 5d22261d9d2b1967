"""Readers: one format a file. `read_all` tells formats by content, never by name, and brings
together what belongs to one rank: a Kineto trace, its execution trace, its flight-recorder dump."""

from paceline.trace.readers.detect import Format, format_of
from paceline.trace.readers.gather import read_all, read_one

__all__ = ["Format", "format_of", "read_all", "read_one"]
