"""Columns of whole numbers as few bytes, for deflate to press: values or differences, as varints
where most are small, or byte by byte where they vary (all lowest bytes, then all next ones, ...).

The page reads them with native/wasm/unpack.cpp, without its engine with web/src/engine/decode.js.
"""

import zlib
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from paceline.engine import native

_TYPES: Final = ("uint8", "int32", "int64", "float64")
_LEVEL: Final = 1  # of deflate, to choose by; higher levels choose alike
_SAMPLE: Final = 2**16  # numbers to choose by


class Coding(Enum):
    """How the numbers of a column stand in its bytes."""

    PLAIN = "plain"  # as in memory, little end first
    VARINTS = "varints"  # zigzag, seven bits a byte
    DELTA_VARINTS = "delta varints"  # of the difference to the one before
    PLANES = "planes"  # zigzag, byte by byte
    DELTA_PLANES = "delta planes"


@dataclass(frozen=True, eq=False)
class CodedColumn:
    """One column: its bytes, and what they are."""

    name: str
    type: str
    count: int
    coding: Coding
    data: bytes

    def described(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "type": self.type,
            "count": self.count,
            "bytes": len(self.data),
            "coding": self.coding.value,
        }


def coded(name: str, column: NDArray[Any]) -> CodedColumn:
    """The column in the coding by which deflate presses a stretch of it best."""
    if column.dtype == np.bool_:
        column = column.astype(np.uint8)
    kind = column.dtype.name
    if kind not in _TYPES:
        raise TypeError(f"column {name} is of type {kind}; a page has {', '.join(_TYPES)}")
    if kind == "float64":
        data = np.ascontiguousarray(column).astype("<f8").tobytes()
        return CodedColumn(name, kind, len(column), Coding.PLAIN, data)
    values = column.astype(np.int64)
    middle = max(0, (len(values) - _SAMPLE) // 2)
    best = _smallest(values[middle : middle + _SAMPLE])
    return CodedColumn(name, kind, len(column), best, WAYS[best](values))


def _smallest(values: NDArray[np.int64]) -> Coding:
    """The coding of these numbers that deflate presses best."""
    return min(WAYS, key=lambda way: len(zlib.compress(WAYS[way](values), _LEVEL)))


def varints(values: NDArray[np.int64]) -> bytes:
    """Zigzag varints: small numbers of either sign take one byte, seven bits each."""
    core = native()
    if core is None:
        return plain_varints(values)
    found: bytes = core.varints(np.ascontiguousarray(values))
    return found


def plain_varints(values: NDArray[np.int64]) -> bytes:
    """The specification of the native ones."""
    bits = _zigzag(values)
    size = np.ones(len(bits), np.int64)
    for more in range(1, 10):
        size += bits >= np.uint64(1 << 7 * more)
    ends = np.cumsum(size)
    out = np.zeros(int(ends[-1]) if len(ends) else 0, np.uint8)
    begins = ends - size
    for place in range(int(size.max(initial=0))):
        rows = np.flatnonzero(size > place)
        low = (bits[rows] >> np.uint64(7 * place)) & np.uint64(0x7F)
        goes_on = np.where(size[rows] > place + 1, 0x80, 0).astype(np.uint8)
        out[begins[rows] + place] = low.astype(np.uint8) | goes_on
    return out.tobytes()


def planes(values: NDArray[np.int64]) -> bytes:
    """Zigzag numbers byte by byte: the lowest of all, then the next of all, as many as are used."""
    bits = _zigzag(values)
    width = -(-int(bits.max(initial=0)).bit_length() // 8)
    low = bits.astype("<u8").view(np.uint8).reshape(-1, 8)[:, :width]
    return np.ascontiguousarray(low.T).tobytes()


def _zigzag(values: NDArray[np.int64]) -> NDArray[np.uint64]:
    """Numbers of either sign as small ones without: 0, -1, 1, -2, ..."""
    return ((values << 1) ^ (values >> 63)).view(np.uint64)


def _differences(values: NDArray[np.int64]) -> NDArray[np.int64]:
    """Of each to the one before; they may wrap, as adding them up does."""
    return np.diff(values, prepend=np.int64(0))


WAYS: Final[dict[Coding, Callable[[NDArray[np.int64]], bytes]]] = {
    Coding.VARINTS: varints,
    Coding.DELTA_VARINTS: lambda values: varints(_differences(values)),
    Coding.PLANES: planes,
    Coding.DELTA_PLANES: lambda values: planes(_differences(values)),
}
