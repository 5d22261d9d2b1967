"""`Graph`: what must precede what, on all ranks. Frozen columns inside, `Op` views outside.

Ids are positions: op 7 is row 7 of every column. On a RECORDED lane the ids are the queue's order.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from functools import cached_property, partial
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from paceline.graph.distinct import Distinct
from paceline.graph.facts import Facts
from paceline.graph.kinds import (
    NONE,
    Axis,
    Basis,
    Collective,
    DepKind,
    DeviceKind,
    Discipline,
    DType,
    LaneKind,
    MemoryCategory,
    OpKind,
    Phase,
)
from paceline.graph.work import Recorded

Int64 = NDArray[np.int64]
Int32 = NDArray[np.int32]
UInt8 = NDArray[np.uint8]
Bool = NDArray[np.bool_]


def _freeze(owner: Any) -> None:
    """Make every array of a dataclass read-only: a frozen value is frozen to its last byte."""
    for value in vars(owner).values():
        if isinstance(value, np.ndarray):
            value.setflags(write=False)


@dataclass(frozen=True, eq=False)
class OpColumns:
    """One row an op. Text lives in the graph's name pool; the columns hold indices into it."""

    rank: Int32  # the process
    lane: Int32  # row of `Lanes`
    kind: UInt8  # OpKind
    phase: UInt8  # Phase
    dur_ns: Int64  # time on the lane once started; UNPRICED where cost/ must find it
    size_bytes: Int64  # payload of a communication; bytes touched by a compute op; 0 unknown
    flops: Int64  # 0 unknown
    group: Int32  # row of `Graph.groups`, or NONE
    instance: Int32  # ops of one instance start together once all have arrived; NONE for others
    collective: UInt8  # Collective
    dtype: UInt8  # DType
    name: Int32  # index into the name pool
    layer: Int32  # index into the name pool, or NONE
    tensor: Int32  # index into the name pool, or NONE
    priority: Int32  # lower goes first on a PRIORITY lane
    step: Int32  # training step
    basis: UInt8  # Basis: what the duration rests on
    scale_ppb: Int64  # by what a price that is found later is multiplied, in parts per billion
    work: Int32  # row of `Graph.works`: what a recorded op worked on; NONE unknown

    def __post_init__(self) -> None:
        _freeze(self)

    def __len__(self) -> int:
        return len(self.dur_ns)


@dataclass(frozen=True, eq=False)
class Dependencies:
    """Predecessors of each op in CSR form: op i waits for `src[ptr[i]:ptr[i + 1]]`."""

    ptr: Int64  # one more than there are ops
    src: Int32
    kind: UInt8  # DepKind
    inferred: Bool  # True where the link was concluded, not recorded

    def __post_init__(self) -> None:
        _freeze(self)

    def __len__(self) -> int:
        return len(self.src)

    def of(self, op: int) -> Int32:
        return self.src[self.ptr[op] : self.ptr[op + 1]]


@dataclass(frozen=True, eq=False)
class Lanes:
    """Queues. A lane serves one op at a time."""

    rank: Int32
    device: Int32  # row of `Graph.devices`
    kind: UInt8  # LaneKind
    discipline: UInt8  # Discipline
    name: tuple[str, ...]

    def __post_init__(self) -> None:
        _freeze(self)

    def __len__(self) -> int:
        return len(self.rank)


@dataclass(frozen=True)
class Device:
    """A processor that lanes belong to, and whose memory the memory curve speaks of."""

    name: str
    host: int = 0
    kind: DeviceKind = DeviceKind.CPU
    memory_bytes: int = 0  # 0 unknown


@dataclass(frozen=True)
class Group:
    """A process group: the ranks that take part in its collectives."""

    name: str
    ranks: tuple[int, ...]
    axis: Axis = Axis.NONE


@dataclass(frozen=True, eq=False)
class Drains:
    """Run-time dependencies: `op` starts only when `lane` has finished all it was given by then.

    "Given" means that the op's LAUNCH predecessors had ended when the draining op arrived.
    """

    op: Int32  # ascending
    lane: Int32

    def __post_init__(self) -> None:
        _freeze(self)

    @staticmethod
    def none() -> "Drains":
        return Drains(np.zeros(0, np.int32), np.zeros(0, np.int32))


@dataclass(frozen=True, eq=False)
class MemoryEvents:
    """Allocations (positive) and frees (negative) that an op makes at its start or its end."""

    op: Int32  # ascending
    device: Int32
    delta_bytes: Int64
    category: UInt8  # MemoryCategory
    at_end: Bool

    def __post_init__(self) -> None:
        _freeze(self)

    @staticmethod
    def none() -> "MemoryEvents":
        zero = np.zeros(0, np.int32)
        return MemoryEvents(
            zero, zero.copy(), np.zeros(0, np.int64), np.zeros(0, np.uint8), np.zeros(0, np.bool_)
        )


@dataclass(frozen=True, eq=False)
class Spread:
    """Recorded samples of durations in CSR form; an op without samples always takes `dur_ns`."""

    ptr: Int64
    samples_ns: Int64

    def __post_init__(self) -> None:
        _freeze(self)


@dataclass(frozen=True, eq=False)
class Graph:
    """All ranks' ops and what each must wait for."""

    ops: OpColumns
    deps: Dependencies
    lanes: Lanes
    devices: tuple[Device, ...]
    groups: tuple[Group, ...] = ()
    names: tuple[str, ...] = ()
    drains: Drains = field(default_factory=Drains.none)
    memory: MemoryEvents = field(default_factory=MemoryEvents.none)
    works: tuple[Recorded, ...] = ()
    spread: Spread | None = None
    facts: Facts = field(default_factory=Facts)
    meta: Mapping[str, Any] = field(default_factory=dict)  # JSON-able notes on where it came from

    def __post_init__(self) -> None:
        if not isinstance(self.meta, MappingProxyType):
            object.__setattr__(self, "meta", MappingProxyType(dict(self.meta)))

    def __reduce__(self) -> "tuple[partial[Graph], tuple[()]]":
        """To other processes; what was derived from it is left here."""
        columns = {item.name: getattr(self, item.name) for item in fields(self)}
        return partial(Graph, **{**columns, "meta": dict(self.meta)}), ()

    def __len__(self) -> int:
        return len(self.ops)

    def __getitem__(self, op: int) -> "Op":
        if not 0 <= op < len(self):
            raise IndexError(f"op {op} is not in a graph of {len(self)} ops")
        return Op(self, op)

    def __iter__(self) -> Iterator["Op"]:
        return (Op(self, i) for i in range(len(self)))

    def text(self, index: int) -> str:
        """The text behind an index into the name pool; empty for NONE."""
        return "" if index == NONE else self.names[index]

    @property
    def world_size(self) -> int:
        """Processes of the job; where that was not said, as many as the graph's ranks need."""
        return self.facts.world_size or max(self.ranks, default=-1) + 1

    @cached_property
    def ranks(self) -> tuple[int, ...]:
        return tuple(Distinct.of(self.lanes.rank).numbers.tolist())


@dataclass(frozen=True, slots=True)
class Op:
    """A view of one row of a graph: for reading and for messages, never for hot loops."""

    graph: Graph
    id: int

    @property
    def name(self) -> str:
        return self.graph.text(int(self.graph.ops.name[self.id]))

    @property
    def layer(self) -> str:
        return self.graph.text(int(self.graph.ops.layer[self.id]))

    @property
    def tensor(self) -> str:
        return self.graph.text(int(self.graph.ops.tensor[self.id]))

    @property
    def rank(self) -> int:
        return int(self.graph.ops.rank[self.id])

    @property
    def lane(self) -> int:
        return int(self.graph.ops.lane[self.id])

    @property
    def kind(self) -> OpKind:
        return OpKind(self.graph.ops.kind[self.id])

    @property
    def phase(self) -> Phase:
        return Phase(self.graph.ops.phase[self.id])

    @property
    def dur_ns(self) -> int:
        return int(self.graph.ops.dur_ns[self.id])

    @property
    def size_bytes(self) -> int:
        return int(self.graph.ops.size_bytes[self.id])

    @property
    def collective(self) -> Collective:
        return Collective(self.graph.ops.collective[self.id])

    @property
    def dtype(self) -> DType:
        return DType(self.graph.ops.dtype[self.id])

    @property
    def basis(self) -> Basis:
        return Basis(self.graph.ops.basis[self.id])

    @property
    def work(self) -> Recorded | None:
        row = int(self.graph.ops.work[self.id])
        return None if row == NONE else self.graph.works[row]

    @property
    def deps(self) -> tuple[int, ...]:
        return tuple(int(i) for i in self.graph.deps.of(self.id))

    def __str__(self) -> str:
        return f"op {self.id} {self.name!r} (rank {self.rank}, {self.graph.lanes.name[self.lane]})"


__all__ = [
    "Collective",
    "DepKind",
    "Dependencies",
    "Device",
    "Discipline",
    "Drains",
    "Graph",
    "Group",
    "LaneKind",
    "Lanes",
    "MemoryCategory",
    "MemoryEvents",
    "Op",
    "OpColumns",
    "Spread",
]
