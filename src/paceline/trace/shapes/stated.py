"""Work that a trace states itself: XLA's operations carry their arithmetic and bytes.

Their dimensions are not told, and stand as zeros.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

import msgspec

from paceline.graph.work import Family, Work, unknown

_CATEGORIES: Final[Mapping[str, Family]] = {
    "convolution": Family.MATRIX,  # on TPUs also of matrices: they run on one kind of unit
    "convolution fusion": Family.MATRIX,
    "output fusion": Family.MATRIX,
    "dot": Family.MATRIX,
    "custom-call": Family.OTHER,
    "loop fusion": Family.POINTWISE,
    "input fusion": Family.REDUCTION,
    "non-fusion elementwise": Family.POINTWISE,
    "select": Family.POINTWISE,
    "reduce": Family.REDUCTION,
    "reduce-window": Family.POOLING,
    "copy": Family.COPY,
    "copy-start": Family.COPY,
    "copy-done": Family.COPY,
    "data formatting": Family.COPY,
    "broadcast": Family.COPY,
    "dynamic-slice": Family.COPY,
    "dynamic-update-slice": Family.COPY,
    "gather": Family.EMBEDDING,
    "scatter": Family.EMBEDDING,
    "sort": Family.SORT,
    "all-reduce": Family.COLLECTIVE,
    "all-gather": Family.COLLECTIVE,
    "reduce-scatter": Family.COLLECTIVE,
    "all-to-all": Family.COLLECTIVE,
    "collective-permute": Family.COLLECTIVE,
}
"""XLA's `hlo_category`."""


class _Form(msgspec.Struct):
    category: Any = msgspec.field(name="hlo_category", default="")
    flops: Any = 0
    size_bytes: Any = msgspec.field(name="bytes_accessed", default=0)


_FORM: Final = msgspec.json.Decoder(_Form)


def work_of(form: bytes) -> Work | None:
    """None where the form states none."""
    try:
        told = _FORM.decode(form)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    flops, size = _count(told.flops), _count(told.size_bytes)
    if not flops and not size:
        return None
    family = _CATEGORIES.get(str(told.category), Family.OTHER)
    return replace(unknown(family), flops=flops, read_bytes=size)


def _count(value: Any) -> int:
    """A whole number from a number; nothing for anything else, or for less than none."""
    return max(int(value), 0) if isinstance(value, int | float) and value < 2**62 else 0
