"""Some values of a vector and their places in about two bytes each.

A place is told by its distance from the one before, in one byte (255: go on as far, no value yet),
a value in one byte of the largest one's scale. What rounding leaves is for the sender to keep.
DGC's authors send run lengths of 16 bits and values of 32.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from paceline.learn.message import Message
from paceline.learn.samples import Vector

_LONGEST = 255
_LEVELS = 127
Places = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Some:
    """Values at places, in ascending order of these."""

    places: Places
    values: Vector

    @staticmethod
    def of(places: Places, values: Vector) -> "Some":
        """Each place once; values that are 0 are left out."""
        order = np.argsort(places, kind="stable")
        kept = order[values[order] != 0]
        return Some(places[kept].astype(np.int64), values[kept])


def rounded(some: Some) -> Some:
    """As they arrive; what rounds to nothing goes nowhere. What is no number stays, to be seen."""
    levels, step = _levels(some)
    if not np.isfinite(step):
        return some
    kept = levels != 0
    return Some(some.places[kept], (step * levels[kept]).astype(np.float32))


def packed_tight(some: Some) -> Message:
    """Of rounded ones."""
    levels, step = _levels(some)
    gaps = np.diff(some.places, prepend=-1) - 1
    jumps, rest = gaps // _LONGEST, (gaps % _LONGEST).astype(np.uint8)
    told = np.full(len(gaps) + int(jumps.sum()), _LONGEST, np.uint8)
    told[np.arange(len(gaps)) + np.cumsum(jumps)] = rest
    return Message({"gaps": told, "levels": levels}, {"step": step})


def unpacked_tight(message: Message) -> Some:
    told, levels = message.vectors["gaps"], message.vectors["levels"]
    ends = np.flatnonzero(told != _LONGEST)
    places = np.cumsum(told.astype(np.int64))[ends] + np.arange(len(ends))
    values = np.float32(message.numbers["step"]) * levels.astype(np.float32)
    return Some(places, values)


def _levels(some: Some) -> tuple[NDArray[np.int8], float]:
    largest = float(np.abs(some.values).max()) if len(some.values) else 0.0
    step = float(np.float32(largest / _LEVELS))
    if not step or not np.isfinite(step):
        return np.zeros(len(some.values), np.int8), step
    return np.rint(some.values / np.float32(step)).astype(np.int8), step
