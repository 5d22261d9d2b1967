"""`GraphBuilder`: graphs drawn by hand in tests, and columns collected by generators and readers.

b = GraphBuilder()
gpu = b.lane(rank=0, name="stream 7")
a = b.op("matmul", gpu, dur_ns=5)
b.op("relu", gpu, dur_ns=2, after=[a])
graph = b.build()
"""

from collections.abc import Iterable, Mapping
from dataclasses import fields
from typing import Any

import numpy as np

from paceline.graph.border import COLUMN_TYPES, UNSCALED, whole_numbers
from paceline.graph.facts import Facts
from paceline.graph.graph import (
    Dependencies,
    Device,
    Drains,
    Graph,
    Group,
    Lanes,
    MemoryEvents,
    OpColumns,
    Spread,
)
from paceline.graph.kinds import (
    NONE,
    Axis,
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
from paceline.graph.work import Recorded


class GraphBuilder:
    """Collects ops one by one; `build()` freezes them into a `Graph`. Call `check` on the result
    (`paceline.graph.check`) when the ops come from outside."""

    def __init__(self, meta: Mapping[str, Any] | None = None, facts: Facts | None = None) -> None:
        self._columns: dict[str, list[int]] = {name: [] for name in COLUMN_TYPES}
        self._deps: list[tuple[int, int, DepKind, bool]] = []  # (op, src, kind, inferred)
        self._lanes: list[tuple[int, int, LaneKind, Discipline, str]] = []
        self._devices: list[Device] = []
        self._groups: list[Group] = []
        self._names: dict[str, int] = {}
        self._drains: list[tuple[int, int]] = []
        self._memory: list[tuple[int, int, int, MemoryCategory, bool]] = []
        self._works: dict[Recorded, int] = {}
        self._samples: dict[int, list[int]] = {}
        self._instances = 0
        self._meta = dict(meta or {})
        self._facts = facts or Facts()

    def device(self, name: str, **settings: Any) -> int:
        self._devices.append(Device(name, **settings))
        return len(self._devices) - 1

    def lane(
        self,
        rank: int = 0,
        name: str = "thread",
        *,
        device: int | None = None,
        kind: LaneKind = LaneKind.THREAD,
        discipline: Discipline = Discipline.RECORDED,
    ) -> int:
        """A new lane; without a device it shares the rank's own, made on first use."""
        if device is None:
            device = self._device_of(rank)
        self._lanes.append((rank, device, kind, discipline, name))
        return len(self._lanes) - 1

    def group(self, name: str, ranks: Iterable[int], axis: Axis = Axis.NONE) -> int:
        self._groups.append(Group(name, tuple(ranks), axis))
        return len(self._groups) - 1

    def instance(self) -> int:
        """A new instance id, to be given to every member of one collective or message."""
        self._instances += 1
        return self._instances - 1

    def op(
        self,
        name: str,
        lane: int,
        dur_ns: int = 0,
        *,
        after: Iterable[int] = (),
        dep: DepKind = DepKind.DATA,
        kind: OpKind = OpKind.COMPUTE,
        phase: Phase = Phase.NONE,
        layer: str = "",
        tensor: str = "",
        collective: Collective = Collective.NONE,
        dtype: DType = DType.NONE,
        size_bytes: int = 0,
        flops: int = 0,
        group: int = NONE,
        instance: int = NONE,
        priority: int = 0,
        step: int = 0,
        basis: Basis = Basis.RECORDED,
        scale_ppb: int = UNSCALED,
        work: Recorded | None = None,
    ) -> int:
        """A new op at the end of its lane; returns its id."""
        row = {
            "rank": self._lanes[lane][0],
            "lane": lane,
            "kind": kind,
            "phase": phase,
            "dur_ns": dur_ns,
            "size_bytes": size_bytes,
            "flops": flops,
            "group": group,
            "instance": instance,
            "collective": collective,
            "dtype": dtype,
            "name": self.intern(name),
            "layer": self.intern(layer) if layer else NONE,
            "tensor": self.intern(tensor) if tensor else NONE,
            "priority": priority,
            "step": step,
            "basis": basis,
            "scale_ppb": scale_ppb,
            "work": NONE if work is None else self._works.setdefault(work, len(self._works)),
        }
        for column, value in row.items():
            self._columns[column].append(value)
        op = len(self._columns["dur_ns"]) - 1
        for src in after:
            self.link(src, op, dep)
        return op

    def link(
        self, src: int, op: int, kind: DepKind = DepKind.DATA, *, inferred: bool = False
    ) -> None:
        """`op` waits for `src`."""
        self._deps.append((op, src, kind, inferred))

    def drain(self, op: int, lane: int) -> None:
        """`op` waits until `lane` has finished all it was given by then."""
        self._drains.append((op, lane))

    def allocate(
        self,
        op: int,
        delta_bytes: int,
        category: MemoryCategory = MemoryCategory.OTHER,
        *,
        device: int | None = None,
        at_end: bool = False,
    ) -> None:
        """`op` allocates (or, where negative, frees) memory at its start or end."""
        if device is None:
            device = self._lanes[self._columns["lane"][op]][1]
        self._memory.append((op, device, delta_bytes, category, at_end))

    def samples(self, op: int, durations_ns: Iterable[int]) -> None:
        self._samples[op] = list(durations_ns)

    def intern(self, text: str) -> int:
        return self._names.setdefault(text, len(self._names))

    def build(self) -> Graph:
        count = len(self._columns["dur_ns"])
        columns = {n: whole_numbers(n, v, COLUMN_TYPES[n]) for n, v in self._columns.items()}
        assert set(columns) == {f.name for f in fields(OpColumns)}
        return Graph(
            ops=OpColumns(**columns),
            deps=dependencies(count, self._deps),
            lanes=self._lane_columns(),
            devices=tuple(self._devices),
            groups=tuple(self._groups),
            names=tuple(self._names),
            drains=self._drain_columns(),
            memory=self._memory_columns(),
            works=tuple(self._works),
            spread=self._spread(count),
            facts=self._facts,
            meta=self._meta,
        )

    def _device_of(self, rank: int) -> int:
        name = f"rank {rank}"
        for index, device in enumerate(self._devices):
            if device.name == name:
                return index
        return self.device(name, host=rank)

    def _lane_columns(self) -> Lanes:
        rank, device, kind, discipline, name = zip(*self._lanes) if self._lanes else ([],) * 5
        return Lanes(
            np.array(rank, np.int32),
            np.array(device, np.int32),
            np.array(kind, np.uint8),
            np.array(discipline, np.uint8),
            tuple(name),
        )

    def _drain_columns(self) -> Drains:
        rows = np.array(sorted(self._drains), np.int32).reshape(-1, 2)
        return Drains(rows[:, 0].copy(), rows[:, 1].copy())

    def _memory_columns(self) -> MemoryEvents:
        rows = sorted(self._memory, key=lambda row: row[0])
        op, device, delta, category, at_end = zip(*rows) if rows else ([],) * 5
        return MemoryEvents(
            np.array(op, np.int32),
            np.array(device, np.int32),
            whole_numbers("delta_bytes", delta),
            np.array(category, np.uint8),
            np.array(at_end, np.bool_),
        )

    def _spread(self, count: int) -> Spread | None:
        if not self._samples:
            return None
        sizes = [len(self._samples.get(op, ())) for op in range(count)]
        flat = [s for op in range(count) for s in self._samples.get(op, ())]
        ptr = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        return Spread(ptr, whole_numbers("samples_ns", flat))


def dependencies(count: int, rows: Iterable[tuple[int, int, DepKind, bool]]) -> Dependencies:
    """CSR form of (op, src, kind, inferred) rows; equal links keep their first kind."""
    table = np.array([(o, s, k, i) for o, s, k, i in rows], np.int64).reshape(-1, 4)
    _, first = np.unique(table[:, :2], axis=0, return_index=True)
    table = table[first]  # np.unique sorts by (op, src)
    ptr = np.zeros(count + 1, np.int64)
    np.add.at(ptr, table[:, 0] + 1, 1)
    return Dependencies(
        np.cumsum(ptr),
        table[:, 1].astype(np.int32),
        table[:, 2].astype(np.uint8),
        table[:, 3].astype(np.bool_),
    )
