"""`stashed`: activations kept in another form between a layer's two passes.

Behind a layer's forward pass stands an op that packs what was taken in it, before its backward pass
one that restores it (`with_packing`). What is kept shrinks; the values themselves are there while
they are made and read.
"""

from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np

from paceline.errors import GraphError
from paceline.graph.graph import Graph, Int64, MemoryEvents
from paceline.graph.kinds import NONE, WORK, LaneKind, MemoryCategory, Phase
from paceline.graph.with_packing import Form, with_packing

RAW_IN_FORWARD = 2
"""Values that a forward pass holds at once: what an op reads and what it makes."""


def stashed(graph: Graph, form: Form) -> Graph:
    """The graph with every layer's float32 activations in that form."""
    layers = _float_bytes(graph)
    found = list(_passes(graph, layers))
    if not found:
        raise GraphError(
            "the recording does not tell what layers keep for the backward pass, so it cannot be "
            "kept in another form. Record the job anew with `paceline record`; recordings of older "
            "versions lack it."
        )
    return with_packing(replace(graph, memory=_memory(graph, form, layers)), found, form)


def _float_bytes(graph: Graph) -> Mapping[str, int]:
    return {
        layer.name: layer.float_bytes
        for held in graph.facts.memory
        for layer in held.layers
        if layer.float_bytes and layer.name
    }


def _passes(graph: Graph, layers: Mapping[str, int]) -> Iterator[tuple[int, int, int]]:
    """Of each layer on each rank in each step: last forward op, first backward op, bytes. Of a
    device's job these are kernels."""
    ops, streams = graph.ops, graph.lanes.kind[graph.ops.lane] == LaneKind.STREAM
    works = np.isin(ops.kind, WORK) & (ops.layer != NONE)
    works &= streams if streams.any() else works
    rows = np.flatnonzero(works & np.isin(ops.phase, (Phase.FORWARD, Phase.BACKWARD)))
    last: dict[tuple[int, int, int], int] = {}
    first: dict[tuple[int, int, int], int] = {}
    keys = zip(ops.rank[rows].tolist(), ops.step[rows].tolist(), ops.layer[rows].tolist())
    for row, key, phase in zip(rows.tolist(), keys, ops.phase[rows].tolist()):
        if phase == Phase.FORWARD:
            last[key] = row
        else:
            first.setdefault(key, row)
    for key in last.keys() & first.keys():
        size_bytes = layers.get(graph.names[key[2]], 0)
        if size_bytes:
            yield last[key], first[key], size_bytes


def _memory(graph: Graph, form: Form, layers: Mapping[str, int]) -> MemoryEvents:
    """Activations in their form; the values as temporary while an op makes or reads them."""
    memory, ops = graph.memory, graph.ops
    shares, read = _shares(graph, form, layers), _read(graph)
    owner = np.stack([ops.rank[memory.op], ops.step[memory.op]])
    found: list[tuple[int, int, int, int, bool]] = []
    for rank, step in np.unique(owner, axis=1).T.tolist():
        rows = np.flatnonzero((owner[0] == rank) & (owner[1] == step))
        found += _of_step(graph, rows, Shares(shares, read, form.scratch))
    table = sorted(found, key=lambda row: row[0])
    op, device, delta, category, at_end = zip(*table) if table else ((),) * 5
    return MemoryEvents(
        np.array(op, np.int32),
        np.array(device, np.int32),
        np.array(delta, np.int64),
        np.array(category, np.uint8),
        np.array(at_end, np.bool_),
    )


def _shares(graph: Graph, form: Form, layers: Mapping[str, int]) -> dict[int, float]:
    """By index of a layer's name: what is left of the bytes that are taken in it."""
    memory, ops = graph.memory, graph.ops
    taken = (memory.category == MemoryCategory.ACTIVATIONS) & (memory.delta_bytes > 0)
    taken &= ops.phase[memory.op] == Phase.FORWARD
    first = ops.step[memory.op] == ops.step.min()
    found = {}
    for index, name in enumerate(graph.names):
        if name in layers:
            mine = taken & first & (ops.layer[memory.op] == index)
            ranks = max(1, len(np.unique(ops.rank[memory.op[mine]])))
            whole = int(memory.delta_bytes[mine].sum()) / ranks
            saved = min(1.0, layers[name] / whole) if whole else 0.0
            found[index] = 1.0 - saved * (1.0 - form.share)
    return found


@dataclass(frozen=True)
class Shares:
    """By index of a layer's name: what packing leaves of its bytes, and what its backward ops read
    at once."""

    left: Mapping[int, float]
    read: Mapping[int, int]
    scratch: float


def _read(graph: Graph) -> dict[int, int]:
    told = {
        layer.name: layer.read_bytes
        for held in graph.facts.memory
        for layer in held.layers
        if layer.read_bytes and layer.name
    }
    return {index: told[name] for index, name in enumerate(graph.names) if name in told}


Event = tuple[int, int, int, int, bool]
"""Op, device, bytes, category, whether at the op's end."""


def _of_step(graph: Graph, rows: Int64, shares: Shares) -> Iterator[Event]:
    """The events of one rank in one step, in their order."""
    memory, ops = graph.memory, graph.ops
    raw: deque[int] = deque()
    packed: dict[int, list[int]] = {}
    reading = 0  # bytes that the backward op at hand has restored
    last, device = NONE, 0
    for row in rows.tolist():
        op = int(memory.op[row])
        back = bool(ops.phase[op] == Phase.BACKWARD)
        if op != last and reading:
            yield last, device, -reading, MemoryCategory.TEMPORARY, False
            reading = 0
        device = int(memory.device[row])
        if op != last and back and shares.read.get(int(ops.layer[op])):
            reading = shares.read[int(ops.layer[op])]
            yield op, device, reading, MemoryCategory.TEMPORARY, False
        last = op
        while raw and (back or len(raw) > RAW_IN_FORWARD):
            yield op, device, -raw.popleft(), MemoryCategory.TEMPORARY, False
        yield from _of_event(graph, row, shares, raw, packed)
    if reading:
        yield last, device, -reading, MemoryCategory.TEMPORARY, False


def _of_event(
    graph: Graph, row: int, shares: Shares, raw: deque[int], packed: dict[int, list[int]]
) -> Iterator[Event]:
    """An activation's event as one of its packed form, and of its values while they are made."""
    memory, ops = graph.memory, graph.ops
    op, device = int(memory.op[row]), int(memory.device[row])
    delta, kind = int(memory.delta_bytes[row]), int(memory.category[row])
    at_end, share = bool(memory.at_end[row]), shares.left.get(int(ops.layer[op]), 1.0)
    born = delta > 0 and ops.phase[op] == Phase.FORWARD and share < 1.0
    if kind != MemoryCategory.ACTIVATIONS or (delta > 0 and not born):
        yield op, device, delta, kind, at_end
    elif born:
        raw.append(delta)
        packed.setdefault(delta, []).append(round(delta * share))
        yield op, device, delta, MemoryCategory.TEMPORARY, at_end
        yield op, device, packed[delta][-1], MemoryCategory.ACTIVATIONS, at_end
        scratch = round(delta * shares.scratch)
        yield op, device, scratch, MemoryCategory.TEMPORARY, at_end
        yield op, device, -scratch, MemoryCategory.TEMPORARY, at_end
    else:
        kept = packed[-delta].pop() if packed.get(-delta) else -delta
        yield op, device, -kept, MemoryCategory.ACTIVATIONS, at_end
