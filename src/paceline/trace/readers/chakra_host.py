"""PyTorch's host execution traces (Chakra JSON): what each op read and wrote, and the collectives'
groups, without times.

With a Kineto trace of the same run each node is found again by its record-function id, and gives
that op its bytes. Alone it makes a trace whose durations are to be priced.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import msgspec
import numpy as np

from paceline.errors import TraceError
from paceline.graph import NONE, LaneKind
from paceline.trace.readers.source import Source
from paceline.trace.spelling import ELEMENT_BYTES, collective_of, dtype_of
from paceline.trace.trace import Category, Collectives, Events, Trace, TraceLane, columns

_GRID_NS: Final = 1_000
"""Nodes of a trace without times stand this far apart, in order of their ids."""


class Attribute(msgspec.Struct):
    """A typed attribute of a node."""

    name: str
    value: Any = None


class Values(msgspec.Struct):
    """Inputs or outputs of a node: shapes and types beside the values."""

    shapes: Any = None
    types: Any = None


class Node(msgspec.Struct):
    """One operator, in the order in which it began."""

    id: int
    name: str = ""
    ctrl_deps: int = 0
    inputs: Values = msgspec.field(default_factory=Values)
    outputs: Values = msgspec.field(default_factory=Values)
    attrs: list[Attribute] = []

    def attribute(self, name: str, default: Any = None) -> Any:
        return next((a.value for a in self.attrs if a.name == name), default)


class Document(msgspec.Struct):
    """The file."""

    schema: str
    nodes: list[Node]
    pid: int = 0


@dataclass(frozen=True)
class HostTrace:
    """One rank's execution trace."""

    source: str
    schema: str
    nodes: Sequence[Node]
    rank: int = NONE


def is_host_trace(head: bytes) -> bool:
    return head.lstrip().startswith(b"{") and b'"schema"' in head and b'"nodes"' in head


def read(source: Source) -> HostTrace:
    try:
        document = msgspec.json.decode(source.read(), type=Document)
    except msgspec.DecodeError as error:
        raise TraceError(
            f"{source.name} is no whole execution trace: {error}; stop the observer before copying"
        ) from error
    if not document.nodes:
        raise TraceError(f"{source.name} holds no nodes")
    return HostTrace(source.name, document.schema, document.nodes)


def completed_by(host: HostTrace, trace: Trace) -> Trace:
    """The Kineto trace with the bytes that each op read and wrote."""
    size = {n.attribute("rf_id", NONE): _bytes(n) for n in host.nodes}
    events = trace.events
    found = np.array([size.get(number, 0) for number in events.record.tolist()], np.int64)
    known = (events.record != NONE) & (found > 0)
    if not known.any():
        return trace.noting(f"{host.source} shares no record-function id with it and tells nothing")
    sizes = np.where(known & (events.size_bytes == 0), found, events.size_bytes)
    return replace(trace, events=replace(events, size_bytes=sizes))


def alone(host: HostTrace) -> Trace:
    """A trace of the nodes in order, without times."""
    leaves = _leaves(host.nodes)
    names: dict[str, int] = {}
    index = np.array([names.setdefault(n.name, len(names)) for n in leaves], np.int32)
    count = len(leaves)
    start = np.arange(count, dtype=np.int64) * _GRID_NS
    issued = [(row, op) for row, n in enumerate(leaves) if (op := collective_of(_collective(n)))]
    rows = [_collective_row(row, op, leaves[row], names) for row, op in issued]
    moves = np.zeros(count, np.bool_)
    moves[[row for row, _ in issued]] = True
    absent = np.full(count, NONE, np.int64)
    events = Events(
        name=index,
        category=np.where(moves, Category.COMMUNICATION, Category.CPU_OP).astype(np.uint8),
        lane=np.zeros(count, np.int32),
        start_ns=start,
        end_ns=start + _GRID_NS,
        size_bytes=np.array([_bytes(node) for node in leaves], np.int64),
        correlation=absent,
        sequence=np.array([int(n.attribute("seq_id", NONE) or NONE) for n in leaves], np.int64),
        record=np.array([int(n.attribute("rf_id", NONE)) for n in leaves], np.int64),
        backward=np.array([bool(n.attribute("fw_parent", 0)) for n in leaves], np.bool_),
        form=np.full(count, NONE, np.int32),
    )
    return Trace(
        source=host.source,
        format="chakra host",
        events=events,
        lanes=(TraceLane("ops", LaneKind.THREAD),),
        names=tuple(names),
        rank=host.rank,
        collectives=columns(Collectives, rows),
        facts={"timed": False},
        notes=(
            "an execution trace without its Kineto partner has no times: durations are unpriced",
        ),
    )


def _leaves(nodes: Sequence[Node]) -> list[Node]:
    """Operators without operators inside; the processes and threads above them are left out."""
    parents = {node.ctrl_deps for node in nodes}
    return [n for n in nodes if n.id not in parents and not n.name.startswith("[")]


def _collective(node: Node) -> str:
    named = str(node.attribute("collective_name", "") or "")
    return named or node.name.removeprefix("c10d::").rstrip("_")


def _collective_row(row: int, op: int, node: Node, names: dict[str, int]) -> tuple[int, ...]:
    group = str(node.attribute("pg_name", "") or "")
    dtype = dtype_of(str(node.attribute("dtype", "") or ""))
    count = int(node.attribute("in_msg_nelems", 0) or 0)
    place = names.setdefault(group, len(names)) if group else NONE
    return (row, place, NONE, op, dtype, count * ELEMENT_BYTES[dtype], NONE, False, NONE)


def _bytes(node: Node) -> int:
    """Bytes of all tensors that a node reads and writes."""
    return _values_bytes(node.inputs) + _values_bytes(node.outputs)


def _values_bytes(values: Values) -> int:
    shapes, types = values.shapes or [], values.types or []
    return sum(_tensor_bytes(shape, str(kind)) for shape, kind in zip(shapes, types))


def _tensor_bytes(shape: Any, kind: str) -> int:
    """`Tensor(float)` of shape [3, 4] has 48 bytes; anything but a tensor none."""
    if not kind.startswith("Tensor(") or not isinstance(shape, list):
        return 0
    return int(np.prod(shape)) * ELEMENT_BYTES[dtype_of(kind[7:-1])]
