"""Columns of whole numbers as bytes that compress well, and values with columns as one block.

A block is a JSON text's length (4 bytes, little-endian), the text, and the columns' bytes. In the
text a column stands as `{"column": n, "as": ...}`. Equal columns are stored once. A column is
stored as differences where that is told, zigzag (small negatives become small positives), in as
few bytes as its largest value needs, and by planes: all lowest bytes, then all second ones.
"""

import json
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass
from enum import Enum
from typing import Any

import numpy as np
from numpy.typing import NDArray

_WIDTHS = (1, 2, 3, 4, 8)
_LEVEL = 9


@dataclass(frozen=True, eq=False)
class Column:
    """Whole numbers. `rising`: one that follows another is close to it, so differences are kept."""

    values: NDArray[Any]
    rising: bool = False


def packed(value: Any) -> bytes:
    """A frozen value with its columns, compressed (zlib)."""
    store = _Store()
    text = json.dumps(store.plain(value), separators=(",", ":"), allow_nan=False).encode()
    text += b" " * (-len(text) % 4)
    block = len(text).to_bytes(4, "little") + text + b"".join(store.parts)
    return zlib.compress(block, _LEVEL)


class _Store:
    """Columns met so far."""

    def __init__(self) -> None:
        self.parts: list[bytes] = []
        self._size = 0
        self._places: dict[tuple[bytes, int, int], int] = {}

    def plain(self, value: Any) -> Any:
        """The value as JSON has it, its columns put away."""
        if isinstance(value, Column):
            return self._column(value)
        if isinstance(value, Enum):
            return value.value
        if is_dataclass(value):
            return {f.name: self.plain(getattr(value, f.name)) for f in fields(value)}
        if isinstance(value, Mapping):
            return {str(key): self.plain(each) for key, each in value.items()}
        if isinstance(value, (tuple, list)):
            return [self.plain(each) for each in value]
        return value

    def _column(self, column: Column) -> dict[str, Any]:
        data, width = encoded(column)
        key = (data, width, len(column.values))
        if key not in self._places:
            self._places[key] = self._size
            self.parts.append(data)
            self._size += len(data)
        return {
            "at": self._places[key],
            "width": width,
            "length": len(column.values),
            "rising": column.rising,
        }


def encoded(column: Column) -> tuple[bytes, int]:
    """Its bytes by planes, and how many a value takes."""
    values = column.values.astype(np.int64)
    if column.rising:
        values = np.diff(values, prepend=0)
    folded = ((values << 1) ^ (values >> 63)).astype("<u8")
    most = int(folded.max(initial=0))
    width = next(width for width in _WIDTHS if most < 1 << (8 * width))
    planes = folded.view(np.uint8).reshape(-1, 8)[:, :width]
    return np.ascontiguousarray(planes.T).tobytes(), width
