"""`given_up`: results that are no longer kept for the backward pass, or kept as less.

The op that makes one takes it for a while, until the layer that reads it is done. Where it is made
again, it is there while that layer goes back.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from paceline.graph.graph import Bool, Graph, Int64, MemoryEvents
from paceline.graph.kinds import NONE, MemoryCategory, OpKind, Phase

Event = tuple[int, int, int, int, bool]
"""Op, device, bytes, category, whether at the op's end."""


@dataclass(frozen=True)
class Left:
    """What becomes of a result."""

    share: float  # of its bytes that are kept
    restored: bool = False  # it is there again while the backward pass reads it
    largest: bool = False  # of several results of one op the largest alone


def given_up(graph: Graph, makers: Bool, left: Left) -> MemoryEvents:
    """The memory events of a graph whose `makers` keep that of the results that they make."""
    memory, ops = graph.memory, graph.ops
    if not len(memory.op):
        return memory
    owner = np.stack([ops.rank[memory.op], ops.step[memory.op]])
    found: list[Event] = []
    for rank, step in np.unique(owner, axis=1).T.tolist():
        rows = np.flatnonzero((owner[0] == rank) & (owner[1] == step))
        found += _of_step(graph, rows, makers, left)
    table = sorted(found, key=lambda event: event[0])
    op, device, delta, category, at_end = zip(*table) if table else ((),) * 5
    return MemoryEvents(
        np.array(op, np.int32),
        np.array(device, np.int32),
        np.array(delta, np.int64),
        np.array(category, np.uint8),
        np.array(at_end, np.bool_),
    )


def _of_step(graph: Graph, rows: Int64, makers: Bool, left: Left) -> Iterator[Event]:
    """The events of one rank in one step. What was taken last of a size goes first."""
    memory = graph.memory
    taken: dict[int, list[bool]] = {}
    most = _most(graph, rows) if left.largest else {}
    for row in rows.tolist():
        op, device, delta = (int(column[row]) for column in
                             (memory.op, memory.device, memory.delta_bytes))  # fmt: skip
        kind, at_end = int(memory.category[row]), bool(memory.at_end[row])
        if kind != MemoryCategory.ACTIVATIONS:
            yield op, device, delta, kind, at_end
        elif delta > 0:
            gone = bool(makers[op]) and (not left.largest or delta == most[op])
            taken.setdefault(delta, []).append(gone)
            if not gone:
                yield op, device, delta, kind, at_end
                continue
            yield op, device, delta, MemoryCategory.TEMPORARY, at_end
            yield op, device, round(delta * left.share), kind, at_end
            yield _read_until(graph, op), device, -delta, MemoryCategory.TEMPORARY, True
        elif taken.get(-delta) and taken[-delta].pop():
            yield op, device, round(delta * left.share), kind, at_end
            if left.restored:
                first, last = _read_again(graph, op)
                yield first, device, -delta, MemoryCategory.TEMPORARY, False
                yield last, device, delta, MemoryCategory.TEMPORARY, True
        else:
            yield op, device, delta, kind, at_end


def _most(graph: Graph, rows: Int64) -> dict[int, int]:
    """By op: the largest of what it keeps."""
    memory, found = graph.memory, dict[int, int]()
    kept = rows[memory.category[rows] == MemoryCategory.ACTIVATIONS]
    for op, delta in zip(memory.op[kept].tolist(), memory.delta_bytes[kept].tolist()):
        found[op] = max(delta, found.get(op, 0))
    return found


def _read_until(graph: Graph, op: int) -> int:
    """The last op of the layer that follows."""
    others = _others(graph, op, Phase.FORWARD)
    behind = others[others > op]
    return _end_of_run(graph, behind, op)


def _read_again(graph: Graph, op: int) -> tuple[int, int]:
    """The first and the last op of the layer that goes back before."""
    others = _others(graph, op, Phase.BACKWARD)
    ahead = others[others < op][::-1]
    return _end_of_run(graph, ahead, op), int(ahead[0]) if len(ahead) else op


def _others(graph: Graph, op: int, phase: Phase) -> Int64:
    """Ops of other layers on the op's lane, in its step."""
    ops = graph.ops
    found = (ops.lane == ops.lane[op]) & (ops.step == ops.step[op]) & (ops.phase == phase)
    found &= (ops.kind == OpKind.COMPUTE) & (ops.layer != NONE) & (ops.layer != ops.layer[op])
    rows: Int64 = np.flatnonzero(found)
    return rows


def _end_of_run(graph: Graph, rows: Int64, otherwise: int) -> int:
    """The last row of the first one's layer, before another layer's."""
    if not len(rows):
        return otherwise
    layers = graph.ops.layer[rows]
    other = np.flatnonzero(layers != layers[0])
    return int(rows[other[0] - 1] if len(other) else rows[-1])
