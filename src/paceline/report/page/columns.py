"""Values with columns in them, as JSON has them, and their columns apart, for `pack.packed`.

In the JSON a column stands as `{"column": "7"}`, the name under which `pack` keeps it. Equal
columns are kept once.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass
from enum import Enum
from typing import Any, Final
from zlib import crc32

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class Column:
    """Numbers, one for each row of something; `typed`: the page's engine takes them as they are."""

    values: NDArray[Any]
    typed: bool = False


@dataclass(frozen=True, eq=False)
class Split:
    """A value without its columns, and these by name."""

    plain: Any
    columns: Mapping[str, NDArray[Any]]


def split(value: Any) -> Split:
    """Any frozen value of texts, numbers, mappings, sequences and columns."""
    store = _Store()
    plain = store.plain(value)
    return Split(plain, store.columns)


_LEAVES: Final = frozenset({str, int, float, bool, type(None)})


class _Store:
    """Columns met so far."""

    def __init__(self) -> None:
        self.columns: dict[str, NDArray[Any]] = {}
        self._alike: dict[tuple[str, int, int], list[str]] = {}

    def plain(self, value: Any) -> Any:
        """The value as JSON has it, its columns put away."""
        if type(value) in _LEAVES:
            return value
        if isinstance(value, Column):
            if value.typed:
                return {"column": self._name(value.values), "typed": True}
            return {"column": self._name(_narrow(value.values))}
        if isinstance(value, Enum):
            return value.value
        if is_dataclass(value):
            return {f.name: self.plain(getattr(value, f.name)) for f in fields(value)}
        if isinstance(value, Mapping):
            return {str(key): self.plain(each) for key, each in value.items()}
        if isinstance(value, (tuple, list)):
            return [self.plain(each) for each in value]
        return value

    def _name(self, values: NDArray[Any]) -> str:
        values = np.ascontiguousarray(values)
        key = (values.dtype.str, len(values), crc32(values.data))
        alike = self._alike.setdefault(key, [])
        for name in alike:
            if np.array_equal(self.columns[name], values):
                return name
        alike.append(name := str(len(self.columns)))
        self.columns[name] = values
        return name


def _narrow(values: NDArray[Any]) -> NDArray[Any]:
    """In 32 bits where these hold all, which the page adds up faster."""
    if values.dtype != np.int64:
        return values
    fits = np.iinfo(np.int32)
    if values.max(initial=0) > fits.max or values.min(initial=0) < fits.min:
        return values
    return values.astype(np.int32)
