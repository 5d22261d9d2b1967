"""Columns as Arrow arrays and back, by their buffers.

`pyarrow.array` and an array's own `to_numpy` would import pandas where that is installed, which
takes longer than reading or writing a small graph ten times.
"""

from collections.abc import Sequence
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from paceline.errors import FileError

_LISTS = {"ranks": "int32", "sizes": "int64"}


def arrow_type(kind: str) -> Any:
    """Of a column of that kind: a NumPy type, "text", "ranks" or "sizes"."""
    import pyarrow as pa

    if kind == "text":
        return pa.string()
    if kind in _LISTS:
        return pa.list_(arrow_type(_LISTS[kind]))
    return pa.from_numpy_dtype(np.dtype(kind))


def to_arrow(values: Any, kind: str) -> Any:
    """A column without gaps."""
    if kind == "text":
        return _texts(values)
    if kind in _LISTS:
        return _lists(values, kind)
    return _numbers(values, kind)


def to_numpy(values: Any) -> NDArray[Any]:
    """Of an Arrow array of numbers without gaps."""
    import pyarrow as pa

    if pa.types.is_boolean(values.type):  # bits
        return np.from_dlpack(values.cast(pa.uint8())).view(np.bool_)
    found: NDArray[Any] = np.from_dlpack(values)
    return found


def _numbers(values: Any, kind: str) -> Any:
    column = _of_type(values, kind)
    return _array(
        kind, len(column), np.packbits(column, bitorder="little") if kind == "bool" else column
    )


def _of_type(values: Any, kind: str) -> NDArray[Any]:
    """The same numbers in that type."""
    given = np.asarray(values)
    if given.dtype == kind:
        return np.ascontiguousarray(given)
    found = given.astype(kind)
    if not np.array_equal(found, given):
        raise FileError(f"a column of {kind} is to hold numbers of that type, not {given.dtype}")
    return found


def _texts(values: Sequence[str]) -> Any:
    told = [text.encode() for text in values]
    return _array("text", len(told), _begins(told), np.frombuffer(b"".join(told), np.uint8))


def _lists(values: Sequence[Sequence[int]], kind: str) -> Any:
    within = _numbers(list(chain.from_iterable(values)), _LISTS[kind])
    return _array(kind, len(values), _begins(values), children=[within])


def _begins(values: Sequence[Any]) -> NDArray[np.int32]:
    """Where each begins when all stand behind one another, and where the last ends."""
    return _of_type(np.cumsum([0, *map(len, values)]), "int32")


def _array(kind: str, count: int, *buffers: NDArray[Any], children: Any = None) -> Any:
    import pyarrow as pa

    held = [None, *map(pa.py_buffer, buffers)]
    return pa.Array.from_buffers(arrow_type(kind), count, held, 0, children=children)
