"""`Trace`: what one rank did, as its profiler saw it. Frozen columns inside, names interned.

Readers make it (`readers/`, one format a file), `clocks` shifts it, `build` joins all ranks' traces
into one graph. Times are int64 nanoseconds on the rank's own clock; NONE (-1) is "not recorded".
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from enum import IntEnum
from functools import partial
from pathlib import PurePath
from types import MappingProxyType
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from paceline.graph import NONE, Collective, LaneKind, RankMemory

Int64 = NDArray[np.int64]
Int32 = NDArray[np.int32]
UInt8 = NDArray[np.uint8]
Bool = NDArray[np.bool_]
T = TypeVar("T")


class Category(IntEnum):
    """What an event of a trace is; the order is the file format of cached traces."""

    OTHER = 0
    CPU_OP = 1  # an operator on a host thread
    ANNOTATION = 2  # a named range on a host thread
    PYTHON = 3  # a Python frame: says which module ran, takes no part in the replay
    RUNTIME = 4  # a host call into the device's driver: launch, record, wait, synchronise
    KERNEL = 5  # on a stream
    MEMCPY = 6
    MEMSET = 7
    COMMUNICATION = 8  # a transfer on a communication library's own thread (gloo)


class SyncKind(IntEnum):
    """How a driver call orders work."""

    EVENT_RECORD = 0
    STREAM_WAIT = 1  # a stream waits for an event
    EVENT_SYNC = 2  # the host waits for an event
    STREAM_SYNC = 3
    DEVICE_SYNC = 4


@dataclass(frozen=True, eq=False)
class Events:
    """One row an event, in order of (lane, start, longest first)."""

    name: Int32  # index into `Trace.names`
    category: UInt8  # Category
    lane: Int32  # row of `Trace.lanes`
    start_ns: Int64
    end_ns: Int64
    size_bytes: Int64  # 0 unknown
    correlation: Int64  # joins a driver call with its device work; NONE without
    sequence: Int64  # autograd's number, equal in forward and backward; NONE without
    record: Int64  # record-function id, shared with an execution trace; NONE without
    backward: Bool  # ran for autograd's backward pass
    form: Int32  # row of `Trace.forms`: shapes of an operator, launch of a kernel; NONE without

    def __len__(self) -> int:
        return len(self.start_ns)


@dataclass(frozen=True)
class TraceLane:
    """A thread or a device stream of the rank."""

    name: str
    kind: LaneKind
    device: int = NONE  # device number of a stream; NONE for the host
    thread: int = 0  # system thread id, or stream number


@dataclass(frozen=True, eq=False)
class Collectives:
    """One row a communication that the trace (or a flight recorder) tells about."""

    event: Int32  # row of `Events`; NONE where only a flight recorder knows it
    group: Int32  # index into `Trace.names`; NONE unknown
    sequence: Int64  # position in the group; NONE unknown
    op: UInt8  # Collective
    dtype: UInt8  # DType
    size_bytes: Int64
    peer: Int32  # other side of a message; NONE for collectives
    sends: Bool  # this side of a message sends
    order: Int64  # issue order on this rank, as the recorder counts; NONE unknown

    def __len__(self) -> int:
        return len(self.event)

    @property
    def peerless(self) -> Bool:
        """Messages that do not say with whom: NCCL's SendRecv kernels without metadata."""
        alone: Bool = (self.op == Collective.POINT_TO_POINT) & (self.peer == NONE)
        return alone


@dataclass(frozen=True, eq=False)
class Syncs:
    """What the driver's synchronisation calls wait for, where the trace says it."""

    kind: UInt8  # SyncKind
    correlation: Int64  # the call's own
    lane: Int32  # the stream that waits, or that is drained; NONE
    source: Int32  # the stream whose event is waited for; NONE
    record: Int64  # correlation of the event record waited for; NONE

    def __len__(self) -> int:
        return len(self.kind)


@dataclass(frozen=True, eq=False)
class Flows:
    """Arrows from one thread to another: forward op to its backward op."""

    src_lane: Int32
    src_ns: Int64
    dst_lane: Int32
    dst_ns: Int64

    def __len__(self) -> int:
        return len(self.src_ns)


@dataclass(frozen=True, eq=False)
class Allocations:
    """Allocator events: positive bytes taken, negative returned."""

    lane: Int32
    at_ns: Int64
    address: Int64
    delta_bytes: Int64
    device: Int32  # NONE for host memory
    category: UInt8  # MemoryCategory

    def __len__(self) -> int:
        return len(self.at_ns)


@dataclass(frozen=True, eq=False)
class Steps:
    """Training steps by their borders on the host."""

    number: Int64
    start_ns: Int64
    end_ns: Int64
    inferred: bool = False  # found by optimizer calls, not by step marks

    def __len__(self) -> int:
        return len(self.number)


@dataclass(frozen=True, eq=False)
class Trace:
    """What one rank did."""

    source: str  # where it was read from
    format: str  # "kineto", "chakra", "chrome", "xplane", "flight recorder"
    events: Events
    lanes: tuple[TraceLane, ...]
    names: tuple[str, ...]
    rank: int = NONE  # NONE where the file does not say
    world_size: int = 0  # 0 unknown
    collectives: Collectives = field(default_factory=lambda: empty(Collectives))
    syncs: Syncs = field(default_factory=lambda: empty(Syncs))
    flows: Flows = field(default_factory=lambda: empty(Flows))
    allocations: Allocations = field(default_factory=lambda: empty(Allocations))
    steps: Steps = field(default_factory=lambda: empty(Steps))
    groups: Mapping[str, tuple[int, ...]] = field(default_factory=dict)  # name -> members
    facts: Mapping[str, Any] = field(default_factory=dict)  # devices, versions, job
    layer_of: Int32 | None = None  # for each event the row of `layers`, or NONE; None: not known
    layers: tuple[str, ...] = ()  # paths of modules
    forms: tuple[bytes, ...] = ()  # what `args` told of shapes and launches, as JSON objects
    memory: RankMemory | None = None  # what the rank holds, where the recorder told it
    notes: tuple[str, ...] = ()  # warnings: what was repaired or left out

    def __post_init__(self) -> None:
        object.__setattr__(self, "groups", MappingProxyType(dict(self.groups)))
        object.__setattr__(self, "facts", MappingProxyType(dict(self.facts)))

    def __reduce__(self) -> "tuple[partial[Trace], tuple[()]]":
        """To other processes."""
        columns = {item.name: getattr(self, item.name) for item in fields(self)}
        plain = {"groups": dict(self.groups), "facts": dict(self.facts)}
        return partial(Trace, **{**columns, **plain}), ()

    def __str__(self) -> str:
        whose = "unknown rank" if self.rank == NONE else f"rank {self.rank}"
        return f"{PurePath(self.source).name} ({whose}, {len(self.events)} events)"

    def noting(self, *notes: str) -> "Trace":
        return replace(self, notes=self.notes + notes)


_DTYPES: dict[Any, Any] = {Int64: np.int64, Int32: np.int32, UInt8: np.uint8, Bool: np.bool_}


def empty(table: type[T]) -> T:
    """A table of the given type without rows."""
    return columns(table, ())


def columns(table: type[T], rows: Iterable[tuple[int, ...]]) -> T:
    """A table from rows in the order of its fields."""
    made: Any = table
    kinds = [_DTYPES[item.type] for item in fields(made) if item.type in _DTYPES]
    cells = list(zip(*rows)) or [()] * len(kinds)
    return table(*(np.array(cell, kind) for cell, kind in zip(cells, kinds)))


def select(table: T, keep: Any) -> T:
    """The rows of a table that a mask or index array names."""
    given: Any = table
    picked = {
        item.name: getattr(table, item.name)[keep]
        for item in fields(given)
        if isinstance(getattr(table, item.name), np.ndarray)
    }
    return replace(given, **picked)  # type: ignore[no-any-return]
