"""Bytes of one element, by type."""

from collections.abc import Mapping
from typing import Final

from paceline.graph.kinds import DType

_BYTES: Final[Mapping[DType, float]] = {
    DType.NONE: 1,
    DType.FLOAT64: 8,
    DType.FLOAT32: 4,
    DType.FLOAT16: 2,
    DType.BFLOAT16: 2,
    DType.FLOAT8: 1,
    DType.INT64: 8,
    DType.INT32: 4,
    DType.INT16: 2,
    DType.INT8: 1,
    DType.UINT8: 1,
    DType.BOOL: 1,
    DType.COMPLEX64: 8,
    DType.FLOAT4: 0.5,
    DType.TFLOAT32: 4,
}


def element_bytes(dtype: DType) -> float:
    """Half a byte for float4; its scales are not counted."""
    return _BYTES[dtype]


def bytes_of(elements: int, dtype: DType) -> int:
    return round(elements * _BYTES[dtype])
