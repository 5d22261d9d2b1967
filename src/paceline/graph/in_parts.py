"""A Parquet file's columns, one row group after the other.

Each group is put where it belongs and its memory used again for the next, so that a table of
gigabytes lies in memory once. In a table of several groups, a column that holds one value from
beginning to end takes no memory at all: it is an array whose rows are all the same place.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from paceline.errors import FileError
from paceline.graph.in_arrow import to_numpy


def in_parts(file: Any, layout: Mapping[str, str], source: str) -> dict[str, Any]:
    """Lists for text and lists, else arrays of their own type."""
    rows, groups = file.metadata.num_rows, file.metadata.num_row_groups
    if groups <= 1:
        table = file.read()
        return {name: _part(table[name], kind, source) for name, kind in layout.items()}
    filled = {name: _Filled(kind, rows) for name, kind in layout.items()}
    for group in range(groups):
        table = file.read_row_group(group)
        for name, kind in layout.items():
            filled[name].put(_part(table[name], kind, source))
    return {name: each.whole() for name, each in filled.items()}


def _part(column: Any, kind: str, source: str) -> Any:
    if column.null_count:
        raise FileError(f"{source} has empty cells where each row needs a value. Save it anew.")
    if kind in ("text", "ranks", "sizes"):
        return column.to_pylist()
    return np.asarray(to_numpy(column.combine_chunks()), np.dtype(kind))


class _Filled:
    """A column that is read part by part."""

    def __init__(self, kind: str, rows: int) -> None:
        self._kind, self._rows, self._known = kind, rows, 0
        self._only: Any = None  # the first value
        self._values: Any = None  # once two differ

    def put(self, part: Any) -> None:
        """The rows that follow."""
        if isinstance(part, list):
            self._values = [*(self._values or []), *part]
        elif self._values is not None or not self._is_more_of_the_same(part):
            self._room()[self._known : self._known + len(part)] = part
        self._known += len(part)

    def whole(self) -> Any:
        if self._values is not None:
            return self._values
        return np.broadcast_to(self._only, self._rows)

    def _is_more_of_the_same(self, part: NDArray[Any]) -> bool:
        if not self._known:
            self._only = part[:1].copy()
        return bool((part == self._only).all())

    def _room(self) -> NDArray[Any]:
        if self._values is None:
            self._values = np.empty(self._rows, np.dtype(self._kind))
            self._values[: self._known] = self._only
        room: NDArray[Any] = self._values
        return room
