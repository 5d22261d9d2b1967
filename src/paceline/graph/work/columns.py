"""Recorded work as the columns of a table, and back."""

from collections.abc import Mapping, Sequence
from dataclasses import astuple, fields
from typing import Any, Final

from paceline.errors import FileError
from paceline.graph.kinds import DType
from paceline.graph.work.work import DIMENSIONS, Family, Launch, Recorded, Way, Work

RECORDED: Final[Mapping[str, str]] = {
    "operator": "text",
    "family": "uint8",
    "way": "uint8",
    "dtype": "uint8",
    "dims": "sizes",
    "flops": "int64",
    "read_bytes": "int64",
    "written_bytes": "int64",
    "blocks": "int64",
    "threads": "int64",
    "registers": "int64",
    "shared_bytes": "int64",
    "inferred": "bool",
}
"""The table's columns; `dims` are those of the family's dimensions, in their order."""


def recorded_columns(works: Sequence[Recorded]) -> dict[str, list[Any]]:
    rows = [_row(each) for each in works]
    return {name: [row[at] for row in rows] for at, name in enumerate(RECORDED)}


def _row(recorded: Recorded) -> tuple[Any, ...]:
    work = recorded.work
    dims = [int(size) for size in astuple(work.dims)]
    sizes = (work.flops, work.read_bytes, work.written_bytes)
    head = (recorded.operator, work.family, work.way, work.dtype, dims)
    return (*head, *sizes, *astuple(recorded.launch), recorded.inferred)


def recorded_of(columns: Mapping[str, Sequence[Any]]) -> tuple[Recorded, ...]:
    try:
        return tuple(_recorded(row) for row in zip(*(columns[name] for name in RECORDED)))
    except (ValueError, TypeError) as error:
        raise FileError(f"the graph tells work of no known kind: {error}") from error


def _recorded(row: tuple[Any, ...]) -> Recorded:
    operator, family, way, dtype, dims, *rest = row
    flops, read, written, *launch = map(int, rest[:-1])
    kind: Any = DIMENSIONS[Family(family)]
    named: Any = zip(fields(kind), dims, strict=True)
    sizes = [item.type(size) for item, size in named]
    work = Work(Family(family), DType(dtype), kind(*sizes), flops, read, written, Way(way))
    return Recorded(operator, work, Launch(*launch), bool(rest[-1]))
