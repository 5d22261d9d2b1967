"""The first law of graphs: columns are equally long, and every index points at something.

What replay and the other rooms rely on before they may touch native code; `check_structure` is
vectorised and takes milliseconds at a million ops.
"""

from enum import IntEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from paceline.errors import GraphError
from paceline.graph.graph import Graph
from paceline.graph.kinds import (
    NONE,
    Collective,
    DepKind,
    Discipline,
    DType,
    LaneKind,
    MemoryCategory,
    OpKind,
    Phase,
)

Column = tuple[str, NDArray[Any]]
_INSTANCES = np.iinfo(np.int32).max


def check_structure(graph: Graph, source: str = "graph") -> None:
    """Raise `GraphError`, naming column and row, where the columns do not fit together."""
    _check_lengths(graph, source)
    _check_rows(graph, source)
    _check_pointers("deps.ptr", graph.deps.ptr, len(graph), len(graph.deps.src), source)
    if graph.spread is not None:
        samples = graph.spread.samples_ns
        _check_pointers("spread.ptr", graph.spread.ptr, len(graph), len(samples), source)


def _check_lengths(graph: Graph, source: str) -> None:
    for owner in (graph.ops, graph.lanes, graph.drains, graph.memory):
        lengths = {name: len(column) for name, column in vars(owner).items()}
        if len(set(lengths.values())) > 1:
            raise GraphError(f"{source}: columns differ in length: {lengths}")
    d = graph.deps
    if not len(d.src) == len(d.kind) == len(d.inferred):
        raise GraphError(f"{source}: columns of deps differ in length")


def _check_rows(graph: Graph, source: str) -> None:
    for name, values, low, high in _ranges(graph):
        wrong = np.flatnonzero((values < low) | (values >= high))
        if len(wrong):
            raise GraphError(
                f"{source}: {name} is {values[wrong[0]]} in row {wrong[0]}; "
                f"allowed are {low} to {high - 1}"
            )


def _ranges(graph: Graph) -> list[tuple[str, NDArray[Any], int, int]]:
    """Every column that points at something: its name, values, least and first too large."""
    ops, lanes, names = graph.ops, graph.lanes, len(graph.names)
    count, devices = len(graph), len(graph.devices)
    return [
        ("ops.lane", ops.lane, 0, len(lanes)),
        ("ops.kind", ops.kind, 0, _size(OpKind)),
        ("ops.phase", ops.phase, 0, _size(Phase)),
        ("ops.collective", ops.collective, 0, _size(Collective)),
        ("ops.dtype", ops.dtype, 0, _size(DType)),
        ("ops.group", ops.group, NONE, len(graph.groups)),
        ("ops.instance", ops.instance, NONE, _INSTANCES),
        ("ops.name", ops.name, NONE, names),
        ("ops.layer", ops.layer, NONE, names),
        ("ops.tensor", ops.tensor, NONE, names),
        ("deps.src", graph.deps.src, 0, count),
        ("deps.kind", graph.deps.kind, 0, _size(DepKind)),
        ("lanes.device", lanes.device, 0, devices),
        ("lanes.kind", lanes.kind, 0, _size(LaneKind)),
        ("lanes.discipline", lanes.discipline, 0, _size(Discipline)),
        ("drains.op", graph.drains.op, 0, count),
        ("drains.lane", graph.drains.lane, 0, len(lanes)),
        ("memory.op", graph.memory.op, 0, count),
        ("memory.device", graph.memory.device, 0, devices),
        ("memory.category", graph.memory.category, 0, _size(MemoryCategory)),
    ]


def _size(kinds: type[IntEnum]) -> int:
    return max(kinds) + 1


def _check_pointers(name: str, ptr: NDArray[Any], rows: int, cells: int, source: str) -> None:
    """CSR row pointers: one more than rows, from 0 up to the number of cells, never falling."""
    fits = len(ptr) == rows + 1 and ptr[0] == 0 and ptr[-1] == cells
    if not fits or bool(np.any(np.diff(ptr) < 0)):
        raise GraphError(f"{source}: {name} does not divide {cells} cells among {rows} rows")
