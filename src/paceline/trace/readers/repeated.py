"""Events that a file holds twice, as where a trace was merged with itself: counted once."""

from dataclasses import fields, replace
from functools import reduce
from typing import Any, Final, TypeVar

import numpy as np
from numpy.typing import NDArray

from paceline.trace.readers.rawevents import Arrows, Int64, MemoryMarks, Ranges, RawEvents

T = TypeVar("T", Ranges, Arrows, MemoryMarks)
Bool = NDArray[np.bool_]

_MIXER: Final = np.uint64(0x9E3779B97F4A7C15)
"""An odd number whose multiples spread over 64 bits (Knuth's multiplicative hashing)."""


def without_repeats(raw: RawEvents) -> tuple[RawEvents, int]:
    """The events, each once, and how many were repeats. Ranges without a number of their own may
    be equal by chance: they count only where numbered ones are there twice too."""
    again = _repeats(raw.ranges)
    numbered = (raw.ranges.correlation > 0) | (raw.ranges.external > 0)
    if not (again & numbered).any():
        return raw, 0
    kept = taken(raw, ~again)
    memory = rows_of(raw.memory, ~_repeats(raw.memory))
    return replace(kept, memory=memory), int(again.sum())


def taken(raw: RawEvents, keep: Bool) -> RawEvents:
    """Of the ranges, those alone."""
    place = np.cumsum(keep) - 1
    details = [(int(place[row]), args) for row, args in raw.details if keep[row]]
    return replace(raw, ranges=rows_of(raw.ranges, keep), details=details)


def rows_of(table: T, keep: Bool) -> T:
    """The rows of a table that are kept."""
    columns: dict[str, Any] = {each.name: getattr(table, each.name)[keep] for each in fields(table)}
    return type(table)(**columns)


def _repeats(table: T) -> Bool:
    """Rows that equal an earlier one in every column."""
    columns = [getattr(table, each.name).astype(np.int64) for each in fields(table)]
    none = np.zeros(len(columns[0]), np.bool_)
    mixed = reduce(_mixed, columns, np.zeros(len(none), np.uint64))
    ordered = np.sort(mixed)
    if not (ordered[1:] == ordered[:-1]).any():
        return none
    _, first, which = np.unique(mixed, return_index=True, return_inverse=True)
    earlier = first[which.reshape(-1)]
    same = np.logical_and.reduce([column == column[earlier] for column in columns])
    repeats: Bool = same & (earlier != np.arange(len(none)))
    return repeats


def _mixed(mixed: NDArray[np.uint64], column: Int64) -> NDArray[np.uint64]:
    turned = (mixed ^ column.view(np.uint64)) * _MIXER
    spread: NDArray[np.uint64] = turned ^ (turned >> np.uint64(29))
    return spread
