"""The law of graphs: what every graph must hold, checked in one pass and named in errors.

`check` holds all of it. `check_columns` holds what keeps indices in bounds; replay asks for that.
"""

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from paceline.errors import GraphError
from paceline.graph.cycles import find_cycle
from paceline.graph.graph import Bool, Graph
from paceline.graph.instances import check_instances
from paceline.graph.kinds import (
    NONE,
    UNPRICED,
    Basis,
    Collective,
    DepKind,
    Discipline,
    DType,
    LaneKind,
    MemoryCategory,
    OpKind,
    Phase,
)


def check(graph: Graph) -> Graph:
    """The graph itself, if it is lawful; else a `GraphError` that names the op and the rule."""
    check_columns(graph)
    _check_durations(graph)
    check_instances(graph)
    cycle = find_cycle(graph)
    if len(cycle):
        raise cycle_error(graph, cycle)
    return graph


def check_columns(graph: Graph) -> None:
    """Columns fit together and every index points at something."""
    _check_shapes(graph)
    ops, count = graph.ops, len(graph)
    _within(graph, "lane", ops.lane, len(graph.lanes), "lanes")
    _within(graph, "group", ops.group, len(graph.groups), "groups", or_none=True)
    _within(graph, "instance", ops.instance, count, "ops", or_none=True)
    for column in ("name", "layer", "tensor"):
        _within(graph, column, getattr(ops, column), len(graph.names), "names", or_none=True)
    _within(graph, "work", ops.work, len(graph.works), "works", or_none=True)
    for column, enum in (
        ("kind", OpKind),
        ("phase", Phase),
        ("collective", Collective),
        ("dtype", DType),
        ("basis", Basis),
    ):
        _within(graph, column, getattr(ops, column), len(enum), "members of its enum")
    _check_ranks(graph)
    _check_lanes(graph)
    _check_dependencies(graph)
    _check_drains(graph)
    _check_memory(graph)
    _check_spread(graph)


_NAMED: Final = 6
"""Ops of a long cycle that an error names, from its beginning."""


def cycle_error(graph: Graph, cycle: Sequence[int]) -> GraphError:
    named = [str(graph[int(op)]) for op in cycle[:_NAMED]]
    others = [f"{len(cycle) - _NAMED} more"] if len(cycle) > _NAMED else []
    chain = " -> ".join([*named, *others, str(graph[int(cycle[0])])])
    return GraphError(
        f"the graph has a cycle of {len(cycle)} ops: {chain}. On RECORDED lanes an op also waits "
        "for the one before it, and members of an instance for each other. Remove one link."
    )


def _check_shapes(graph: Graph) -> None:
    for owner, rows in (
        (graph.ops, len(graph)),
        (graph.lanes, len(graph.lanes)),
        (graph.drains, len(graph.drains.op)),
        (graph.memory, len(graph.memory.op)),
    ):
        for name, column in vars(owner).items():
            whole = not isinstance(column, np.ndarray) or column.dtype.kind in "iub"
            if len(column) == rows and whole:
                continue
            wrong = f"has {len(column)} rows beside {rows}" if whole else "must hold whole numbers"
            raise GraphError(f"{type(owner).__name__}.{name} {wrong}")
    _require(
        len(graph.deps.ptr) == len(graph) + 1, "deps.ptr needs one row more than there are ops"
    )


def _check_ranks(graph: Graph) -> None:
    wrong = graph.ops.rank != graph.lanes.rank[graph.ops.lane]
    if wrong.any():
        op = graph[int(np.argmax(wrong))]
        raise GraphError(f"{op} lies on a lane of rank {graph.lanes.rank[op.lane]}, not of its own")


def _check_lanes(graph: Graph) -> None:
    lanes, known = graph.lanes, len(graph.devices)
    wrong = (lanes.device < 0) | (lanes.device >= known)
    if wrong.any():
        lane = int(np.argmax(wrong))
        raise GraphError(
            f"lane {lane} {lanes.name[lane]!r} of rank {lanes.rank[lane]} is on device "
            f"{lanes.device[lane]}; known are {known} devices, from 0"
        )
    _require(bool((lanes.discipline < len(Discipline)).all()), "a lane has an unknown discipline")
    _require(bool((lanes.kind < len(LaneKind)).all()), "a lane has an unknown kind")


def _check_dependencies(graph: Graph) -> None:
    deps, count = graph.deps, len(graph)
    sizes = np.diff(deps.ptr)
    whole = deps.ptr[0] == 0 and deps.ptr[-1] == len(deps.src) and bool((sizes >= 0).all())
    _require(whole, "deps.ptr must rise from 0 to the number of dependencies")
    _require(len(deps.kind) == len(deps.src) == len(deps.inferred), "deps columns differ in length")
    _require(bool((deps.kind < len(DepKind)).all()), "a dependency has an unknown kind")
    wrong = (deps.src < 0) | (deps.src >= count)
    if wrong.any():
        at = int(np.argmax(wrong))
        op = graph[int(np.searchsorted(deps.ptr, at, "right")) - 1]
        raise GraphError(f"{op} waits for op {deps.src[at]}, which is not among {count} ops")


def _check_drains(graph: Graph) -> None:
    drains = graph.drains
    if not len(drains.op):
        return
    _require(bool((np.diff(drains.op) >= 0).all()), "drains must be sorted by op")
    _require(drains.op[0] >= 0 and drains.op[-1] < len(graph), "a drain names an unknown op")
    for wrong, rule in (
        ((drains.lane < 0) | (drains.lane >= len(graph.lanes)), "drains a lane that is not there"),
        (graph.ops.lane[drains.op] == drains.lane, "drains its own lane"),
        (graph.ops.instance[drains.op] != NONE, "drains a lane, yet is a member of an instance"),
    ):
        if wrong.any():
            row = int(np.argmax(wrong))
            raise GraphError(f"{graph[int(drains.op[row])]} {rule} (lane {drains.lane[row]})")


def _check_memory(graph: Graph) -> None:
    memory = graph.memory
    if not len(memory.op):
        return
    _require(bool((np.diff(memory.op) >= 0).all()), "memory events must be sorted by op")
    _require(memory.op[0] >= 0 and memory.op[-1] < len(graph), "a memory event has an unknown op")
    _require(
        bool(((memory.device >= 0) & (memory.device < len(graph.devices))).all()),
        "a memory event has an unknown device",
    )
    _require(
        bool((memory.category < len(MemoryCategory)).all()),
        "a memory event has an unknown category",
    )


def _check_spread(graph: Graph) -> None:
    if graph.spread is None:
        return
    ptr, samples = graph.spread.ptr, graph.spread.samples_ns
    _require(len(ptr) == len(graph) + 1, "spread.ptr needs one row more than there are ops")
    whole = ptr[0] == 0 and ptr[-1] == len(samples) and bool((np.diff(ptr) >= 0).all())
    _require(whole, "spread.ptr must rise from 0 to the number of samples")


def _check_durations(graph: Graph) -> None:
    wrong = (graph.ops.dur_ns < 0) & (graph.ops.dur_ns != UNPRICED)
    if wrong.any():
        op = graph[int(np.argmax(wrong))]
        raise GraphError(f"{op} has duration {op.dur_ns} ns; it must not be negative")
    scale = graph.ops.scale_ppb
    if (scale < 0).any():
        op = graph[int(np.argmax(scale < 0))]
        raise GraphError(f"{op} has scale_ppb {scale.min()}; it must not be negative")
    if graph.spread is not None and len(graph.spread.samples_ns):
        spread = graph.spread
        at = int(np.argmin(spread.samples_ns))
        if spread.samples_ns[at] < 0:
            op = graph[int(np.searchsorted(spread.ptr, at, "right")) - 1]
            raise GraphError(
                f"{op} has a sample of {spread.samples_ns[at]} ns; none may be negative"
            )


def _within(
    graph: Graph,
    column: str,
    values: NDArray[np.integer],
    limit: int,
    what: str,
    *,
    or_none: bool = False,
) -> None:
    lowest = NONE if or_none else 0
    if not len(values) or (lowest <= values.min() and values.max() < limit):
        return
    wrong: Bool = (values < lowest) | (values >= limit)
    op = int(np.argmax(wrong))
    name = graph.text(int(graph.ops.name[op])) if column not in {"name", "lane"} else "?"
    raise GraphError(
        f"op {op} {name!r} of rank {graph.ops.rank[op]} has {column} {values[op]}; "
        f"there are {limit} {what}, from 0"
    )


def _require(holds: bool, rule: str) -> None:
    if not holds:
        raise GraphError(f"not a graph: {rule}")
