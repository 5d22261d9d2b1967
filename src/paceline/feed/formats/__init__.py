"""Formats of data sets, one a file. A file holds samples, each an array, which are read one by one.

with path.open("rb") as file:
    samples = format_of("npz").open(file)
    samples[3]
"""

from collections.abc import Mapping
from typing import Final

from paceline.feed.errors import FeedError
from paceline.feed.formats.format import Array, Format, Samples
from paceline.feed.formats.hdf5 import Hdf5
from paceline.feed.formats.images import Jpeg, Png
from paceline.feed.formats.npz import Npz
from paceline.feed.formats.parquet import Parquet
from paceline.feed.formats.raw import Raw
from paceline.feed.formats.tfrecord import TfRecord

FORMATS: Final[Mapping[str, Format]] = {
    each.name: each for each in (Npz(), Hdf5(), Parquet(), TfRecord(), Jpeg(), Png(), Raw())
}
COMPRESSIONS: Final = {name: ("none", *each.compressions) for name, each in FORMATS.items()}
ARRAYS: Final = tuple(name for name, each in FORMATS.items() if not each.images)
"""Formats that hold arrays of any type and shape, and keep every value."""


def format_of(name: str) -> Format:
    if name not in FORMATS:
        raise FeedError(f"format is {name!r}; known: {', '.join(FORMATS)}")
    return FORMATS[name]


__all__ = ["ARRAYS", "COMPRESSIONS", "FORMATS", "Array", "Format", "Samples", "format_of"]
