"""Kernels that the memory decides, on the device alone: waits, and bytes over the rate reached.

    t = w least + bytes / rate

Whatever works row by row waits for the memory twice (w = 2): for a row and then for its sum, or
for an index and then for what lies there. What was just written and fits the cache comes from
there; the share that still goes to memory grows with the square of bytes over cache. A broadcast,
and a copy that is no cast and so changes the layout, work out where each element lies: that takes
longer than the cache, and half of the memory's rate is left. A cast to a wider type goes element
by element in torch's kernels, at a rate of each processor.

Wrong where `Work` does not tell: operators on strided tensors without a broadcast are as slow, and
large gathers reach a quarter of an H100's rate.
"""

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np

from paceline.cost.forecast.asked import Forecast
from paceline.cost.forecast.method import Column
from paceline.cost.forecast.sheet import Sheet
from paceline.graph.kinds import DType, Vendor
from paceline.graph.work import Elements, Family, Work, element_bytes

_WAITS_TWICE: Final = frozenset(
    {Family.NORM, Family.SOFTMAX, Family.REDUCTION, Family.LOSS, Family.EMBEDDING}
)
_CACHED: Final = 0.4
"""Of the memory's time, for what lies in the cache: pointwise kernels recorded on an A100."""
_ADDRESSED: Final = 0.5
"""Of the memory's rate: broadcasts and copies recorded on an H100."""
_SPREAD: Final[Mapping[Vendor, float]] = {Vendor.NVIDIA: 0.25, Vendor.AMD: 0.45}
"""Mean error of kernels recorded on a V100, an A100 and an H100, and on an MI300X, from which
nothing here was taken (docs/accuracy.md)."""


def moved(works: Sequence[Work], sheet: Sheet) -> Forecast:
    """Nanoseconds of kernels that read and write so many bytes."""
    sizes = np.array([work.size_bytes for work in works], np.float32)
    waits = np.array([1 + (work.family in _WAITS_TWICE) for work in works], np.float32)
    addressed = np.array([_addresses(work) for work in works], np.bool_)
    share = np.where(addressed, 1 / _ADDRESSED, _outside(sizes, sheet.cache_bytes))
    body = sizes * share / (sheet.reached_bytes_per_s or sheet.memory_bytes_per_s)
    cast = np.array([_widened(work) for work in works]) / (sheet.units * sheet.clock_hz * _WIDENED)
    dur_ns = ((np.maximum(body, cast) + waits * sheet.least_s) * 1e9).astype(np.float32)
    wide = np.float32(1 + _SPREAD.get(sheet.vendor, max(_SPREAD.values())))
    return Forecast(dur_ns, dur_ns / wide, dur_ns * wide, f"the memory's rate of {sheet.name}")


def _outside(sizes: Column, cache_bytes: float) -> Column:
    """Time as a share of what it would be if all came from memory."""
    square = (sizes / np.float32(cache_bytes)) ** 2
    outside = square / (1 + square)
    return np.asarray(outside + (1 - outside) * _CACHED, np.float32)


def _addresses(work: Work) -> bool:
    """Whether each element's place is worked out: in a broadcast an operand is all but absent."""
    if work.family is Family.COPY:
        return relaid(work)
    dims = work.dims
    if not isinstance(dims, Elements) or dims.inputs < 2:
        return False
    operand = dims.count * element_bytes(work.dtype)
    return work.read_bytes < operand * (dims.inputs - 1 + _PART)


def relaid(work: Work) -> bool:
    """Whether a copy changes the layout: it is neither a cast nor one of plain bytes."""
    return work.read_bytes == work.written_bytes and work.dtype is not DType.UINT8


def _widened(work: Work) -> int:
    """Elements that are cast to a wider type; plain bytes and fills have none."""
    dims = work.dims
    if work.family is not Family.COPY or work.dtype is DType.UINT8 or not work.read_bytes:
        return 0
    assert isinstance(dims, Elements)
    return dims.count if work.written_bytes > element_bytes(work.dtype) * dims.count else 0


_WIDENED: Final = 1.4
"""Elements in a processor's cycle: bfloat16 to float32 recorded on an H100 (1.34 to 1.43); on an
H200, from which nothing was taken, 1.45."""
_PART: Final = 0.05
