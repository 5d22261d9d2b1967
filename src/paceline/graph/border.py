"""Where numbers from outside become columns: whole, finite, and within the column's range."""

from typing import Any

import numpy as np

from paceline.errors import GraphError
from paceline.graph.graph import Int64

COLUMN_TYPES: dict[str, type[np.integer[Any]]] = {
    "rank": np.int32,
    "lane": np.int32,
    "kind": np.uint8,
    "phase": np.uint8,
    "dur_ns": np.int64,
    "size_bytes": np.int64,
    "flops": np.int64,
    "group": np.int32,
    "instance": np.int32,
    "collective": np.uint8,
    "dtype": np.uint8,
    "name": np.int32,
    "layer": np.int32,
    "tensor": np.int32,
    "priority": np.int32,
    "step": np.int32,
    "basis": np.uint8,
    "scale_ppb": np.int64,
    "work": np.int32,
}
"""Storage type of each op column, in the order of `OpColumns`."""


UNSCALED = 1_000_000_000
"""`scale_ppb` of an op whose price stays as it is found."""


def column_values(name: str, values: Any, count: int) -> Int64:
    """Values for `count` rows of a column: one for all, or one each; checked against its type."""
    if name not in COLUMN_TYPES:
        raise GraphError(f"an op has no column {name!r}; columns are {', '.join(COLUMN_TYPES)}")
    given = np.asarray(values)
    if given.ndim and len(given) != count:
        raise GraphError(f"column {name} was given {len(given)} values for {count} ops")
    checked = whole_numbers(name, given, COLUMN_TYPES[name])
    return np.broadcast_to(checked, (count,)).astype(np.int64)


def whole_numbers(
    name: str, values: Any, dtype: type[np.integer[Any]] = np.int64
) -> np.ndarray[Any, Any]:
    """`values` as an array of `dtype`; an error names the first row that does not fit."""
    given = np.asarray(values)
    if given.size == 0:
        return given.astype(dtype)
    flat = given.ravel()
    if given.dtype.kind == "f":
        _refuse(name, flat, ~np.isfinite(flat), "is not a finite number")
        _refuse(name, flat, flat != np.rint(flat), "is not a whole number")
        _refuse(name, flat, np.abs(flat) >= 2.0**63, "passes 64 bits")
    elif given.dtype.kind not in "iub":
        raise GraphError(f"{name} has {flat[0]!r}, which is no number of at most 64 bits")
    limits = np.iinfo(dtype)
    low = flat < limits.min if given.dtype.kind != "u" else np.zeros(flat.shape, np.bool_)
    _refuse(name, flat, low | (flat > limits.max), f"does not fit {np.dtype(dtype).name}")
    return given.astype(dtype)


def _refuse(
    name: str, values: np.ndarray[Any, Any], wrong: np.ndarray[Any, Any], what: str
) -> None:
    if wrong.any():
        row = int(np.argmax(wrong))
        raise GraphError(f"{name} of row {row} is {values[row]}, which {what}")
