"""`offloaded`: activations that wait in host memory for their layer's backward pass.

Behind a layer's last forward kernel they are copied out, on a lane of its own; they are copied back
on another one while the layer behind it runs backward, and the layer's own pass waits for them.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from paceline.errors import GraphError
from paceline.graph.border import UNSCALED
from paceline.graph.copying import joined
from paceline.graph.cycles import lane_previous
from paceline.graph.graph import Graph, Int64, Lanes, MemoryEvents
from paceline.graph.kinds import (
    NONE,
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
from paceline.graph.links import Links
from paceline.graph.splice import Added, spliced

_NAMES = ("activations to host", "activations from host")


@dataclass(frozen=True)
class Pass:
    """One layer on one rank in one step."""

    rank: int
    step: int
    last: int  # forward kernel
    first: int  # backward kernel
    size_bytes: int


def offloaded(graph: Graph, dur_ns: Callable[[int], int]) -> Graph:
    """The graph with every layer's activations in host memory between its passes; `dur_ns` of a
    copy by its bytes."""
    if not (graph.lanes.kind == LaneKind.STREAM).any():
        raise GraphError(
            "activations already are in host memory: the job was recorded without an accelerator. "
            "Record it on one."
        )
    passes = _passes(graph)
    if not passes:
        raise GraphError(
            "the recording does not tell what layers keep for the backward pass, so it cannot be "
            "offloaded. Record the job anew with `paceline record`."
        )
    count, first = len(passes), len(graph)
    out, back = first + np.arange(count), first + count + np.arange(count)
    ends, begins = _column(passes, "last"), _column(passes, "first")
    triggers = _triggers(graph, passes)
    there = np.flatnonzero(triggers != NONE)
    links = (
        Links.of(graph)
        .joined(Links.all_of(out, ends, DepKind.DATA))
        .joined(Links.all_of(back, out, DepKind.DATA))
        .joined(Links.all_of(back[there], triggers[there], DepKind.EVENT))
        .joined(Links.all_of(begins, back, DepKind.DATA))
    )
    lanes, lane_of = _lanes(graph)
    columns = _columns(graph, passes, lane_of, dur_ns)
    stands = np.concatenate([ends, np.where(triggers == NONE, begins - 1, triggers)])
    added = Added(np.concatenate([ends, begins]), stands, columns)
    named = replace(graph, names=(*graph.names, *_NAMES), lanes=lanes)
    made = spliced(named, np.zeros(first, np.bool_), added, links)
    return replace(made, memory=_memory(made, len(graph.names)))


def _passes(graph: Graph) -> list[Pass]:
    """Layers whose forward and backward kernels are known, in the order of their forward passes."""
    kept = _kept(graph)
    ops = graph.ops
    streams = graph.lanes.kind[ops.lane] == LaneKind.STREAM
    rows = np.flatnonzero(streams & (ops.kind == OpKind.COMPUTE) & (ops.layer != NONE))
    last: dict[tuple[int, int, int], int] = {}
    first: dict[tuple[int, int, int], int] = {}
    for row in rows.tolist():
        key = int(ops.rank[row]), int(ops.step[row]), int(ops.layer[row])
        if ops.phase[row] == Phase.FORWARD:
            last[key] = row
        elif ops.phase[row] == Phase.BACKWARD:
            first.setdefault(key, row)
    found = [
        Pass(key[0], key[1], last[key], first[key], kept[key[0], graph.names[key[2]]])
        for key in last
        if key in first and (key[0], graph.names[key[2]]) in kept
    ]
    return sorted(found, key=lambda one: (one.rank, one.step, one.last))


def _kept(graph: Graph) -> Mapping[tuple[int, str], int]:
    return {
        (held.rank, layer.name): layer.float_bytes
        for held in graph.facts.memory
        for layer in held.layers
        if layer.float_bytes and layer.name
    }


def _column(passes: list[Pass], name: str) -> Int64:
    return np.array([getattr(one, name) for one in passes], np.int64)


def _triggers(graph: Graph, passes: list[Pass]) -> Int64:
    """The kernel behind which each copy back may begin: the one before the backward pass of the
    layer that comes before it there; NONE for the layer that comes first."""
    found = np.full(len(passes), NONE, np.int64)
    before_on_lane = lane_previous(graph)
    turns = [(one.rank, one.step, one.first) for one in passes]
    order = sorted(range(len(passes)), key=turns.__getitem__)
    for before, after in pairwise(order):
        one, other = passes[before], passes[after]
        if (one.rank, one.step) == (other.rank, other.step):
            found[after] = before_on_lane[one.first]
    return found


def _lanes(graph: Graph) -> tuple[Lanes, Mapping[int, int]]:
    """The graph's lanes and two more for each rank; the first of them by rank."""
    old = graph.lanes
    device: dict[int, int] = {}
    for lane in np.flatnonzero(old.kind == LaneKind.STREAM).tolist():
        device.setdefault(int(old.rank[lane]), int(old.device[lane]))
    ranks = np.repeat(list(device), 2).astype(np.int32)
    lanes = Lanes(
        np.concatenate([old.rank, ranks]),
        np.concatenate([old.device, np.repeat(list(device.values()), 2)]).astype(np.int32),
        np.concatenate([old.kind, np.full(len(ranks), LaneKind.COPY_ENGINE)]).astype(np.uint8),
        np.concatenate([old.discipline, np.full(len(ranks), Discipline.PRIORITY)]).astype(np.uint8),
        (*old.name, *(_NAMES * len(device))),
    )
    return lanes, {rank: len(old) + 2 * row for row, rank in enumerate(device)}


def _columns(
    graph: Graph, passes: list[Pass], lane_of: Mapping[int, int], dur_ns: Callable[[int], int]
) -> dict[str, Int64]:
    count, names = 2 * len(passes), len(graph.names)
    lane = np.array([lane_of[one.rank] for one in passes], np.int64)
    return {
        "lane": np.concatenate([lane, lane + 1]),
        "kind": np.full(count, OpKind.COPY),
        "dur_ns": np.tile([dur_ns(one.size_bytes) for one in passes], 2),
        "size_bytes": np.tile(_column(passes, "size_bytes"), 2),
        "flops": np.zeros(count, np.int64),
        "group": np.full(count, NONE),
        "instance": np.full(count, NONE),
        "collective": np.full(count, Collective.NONE),
        "dtype": np.full(count, DType.FLOAT32),
        "name": np.repeat([names, names + 1], len(passes)),
        "tensor": np.full(count, NONE),
        "basis": np.full(count, Basis.DATASHEET),
        "scale_ppb": np.full(count, UNSCALED),
        "work": np.full(count, NONE),
    }


def _memory(graph: Graph, name: int) -> MemoryEvents:
    """Given up when a copy out has ended, taken again when the copy back begins."""
    if not len(graph.memory.op):
        return graph.memory
    ops = graph.ops
    rows = np.flatnonzero((ops.kind == OpKind.COPY) & np.isin(ops.name, (name, name + 1)))
    out = ops.name[rows] == name
    moved = MemoryEvents(
        rows.astype(np.int32),
        graph.lanes.device[ops.lane[rows]],
        np.where(out, -ops.size_bytes[rows], ops.size_bytes[rows]),
        np.full(len(rows), MemoryCategory.ACTIVATIONS, np.uint8),
        out,
    )
    whole: MemoryEvents = joined([graph.memory, moved])
    order = np.argsort(whole.op, kind="stable")
    return MemoryEvents(*(column[order] for column in vars(whole).values()))
