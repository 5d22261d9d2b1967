"""`OpRows`: op columns gathered as whole arrays, a template at a time; no Python object per op.

A template is one block's ops with links among themselves; it is stamped many times, each time with
its own rank, lanes, instances and links to ops before it.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from paceline.graph.border import UNSCALED
from paceline.graph.graph import Dependencies, MemoryEvents, OpColumns
from paceline.graph.kinds import (
    NONE,
    UNPRICED,
    Basis,
    Collective,
    DepKind,
    DType,
    MemoryCategory,
    OpKind,
    Phase,
)

_COLUMNS = ("lane", "kind", "size_bytes", "flops", "group", "collective", "dtype", "name", "phase")


@dataclass(frozen=True)
class TemplateOp:
    """One op of a template; `lane` and `group` count within a stage."""

    name: str
    lane: int
    kind: OpKind
    phase: Phase = Phase.NONE
    size_bytes: int = 0
    flops: int = 0
    group: int = NONE
    collective: Collective = Collective.NONE
    dtype: DType = DType.NONE


@dataclass(frozen=True)
class GradientEnd:
    """The row after which a gradient of the block is complete, once all micro-batches added to it.
    `part` counts the block's layers from the input on."""

    row: int
    part: int


@dataclass(frozen=True, eq=False)
class Template:
    """Columns of one block, its inner links (op, src, kind) as row numbers, its memory events
    (row, bytes, category, at the end), and where its gradients end."""

    columns: Mapping[str, NDArray[np.int64]]
    links: NDArray[np.int64]
    memory: NDArray[np.int64]
    ends: tuple[GradientEnd, ...] = ()

    def __len__(self) -> int:
        return len(self.columns["lane"])


class OpRows:
    """All ops so far, as lists of arrays."""

    def __init__(self) -> None:
        self._names: dict[str, int] = {}
        self._parts: dict[str, list[NDArray[np.int64]]] = {name: [] for name in _COLUMNS}
        self._ranks: list[tuple[int, int]] = []  # (rank, ops)
        self._links: list[NDArray[np.int64]] = []
        self._more: list[tuple[int, int, int]] = []
        self._instances: list[tuple[int, int]] = []
        self._memory: list[NDArray[np.int64]] = []  # (op, bytes, category, at the end, device)
        self.count = 0

    def template(
        self,
        rows: Sequence[TemplateOp],
        links: Iterable[tuple[int, int, DepKind]],
        memory: Sequence[tuple[int, int, int, bool]] = (),
        ends: tuple[GradientEnd, ...] = (),
    ) -> Template:
        columns = {
            name: np.array([getattr(row, name) for row in rows], np.int64)
            for name in _COLUMNS
            if name != "name"
        }
        columns["name"] = np.array([self.intern(row.name) for row in rows], np.int64)
        return Template(
            columns,
            np.array(list(links), np.int64).reshape(-1, 3),
            np.array(memory, np.int64).reshape(-1, 4),
            ends,
        )

    def stamp(self, made: Template, rank: int, first_lane: int, device: int) -> int:
        """Add a template's ops; returns the id of the first."""
        first = self.count
        for name, part in self._parts.items():
            column = made.columns[name]
            part.append(column + first_lane if name == "lane" else column)
        self._ranks.append((rank, len(made)))
        if len(made.links):
            self._links.append(made.links + np.array([first, first, 0]))
        if len(made.memory):
            events = np.insert(made.memory, 4, device, axis=1)
            self._memory.append(events + np.array([first, 0, 0, 0, 0]))
        self.count += len(made)
        return first

    def link(self, op: int, src: int, kind: DepKind) -> None:
        self._more.append((op, src, kind))

    def join(self, op: int, instance: int) -> None:
        self._instances.append((op, instance))

    def hold(self, op: int, device: int, size_bytes: int, category: MemoryCategory) -> None:
        """What a device holds from the start of an op on."""
        self._memory.append(np.array([[op, size_bytes, category, 0, device]], np.int64))

    def intern(self, text: str) -> int:
        return self._names.setdefault(text, len(self._names))

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._names)

    def ops(self) -> OpColumns:
        count = self.count
        column: dict[str, Any] = {n: np.concatenate(parts) for n, parts in self._parts.items()}
        instance = np.full(count, NONE, np.int32)
        if self._instances:
            joined = np.array(self._instances, np.int64)
            instance[joined[:, 0]] = joined[:, 1]
        ranks, sizes = zip(*self._ranks)
        return OpColumns(
            rank=np.repeat(np.array(ranks, np.int32), sizes),
            lane=column["lane"].astype(np.int32),
            kind=column["kind"].astype(np.uint8),
            phase=column["phase"].astype(np.uint8),
            dur_ns=np.full(count, UNPRICED, np.int64),
            size_bytes=column["size_bytes"],
            flops=column["flops"],
            group=column["group"].astype(np.int32),
            instance=instance,
            collective=column["collective"].astype(np.uint8),
            dtype=column["dtype"].astype(np.uint8),
            name=column["name"].astype(np.int32),
            layer=np.full(count, NONE, np.int32),
            tensor=np.full(count, NONE, np.int32),
            priority=np.zeros(count, np.int32),
            step=np.zeros(count, np.int32),
            basis=np.full(count, Basis.DATASHEET, np.uint8),
            scale_ppb=np.full(count, UNSCALED, np.int64),
            work=np.full(count, NONE, np.int32),
        )

    def memory(self) -> MemoryEvents:
        """Events of all ops, by op."""
        if not self._memory:
            return MemoryEvents.none()
        table = np.concatenate(self._memory)
        table = table[np.argsort(table[:, 0], kind="stable")]
        return MemoryEvents(
            op=table[:, 0].astype(np.int32),
            device=table[:, 4].astype(np.int32),
            delta_bytes=table[:, 1].copy(),
            category=table[:, 2].astype(np.uint8),
            at_end=table[:, 3].astype(np.bool_),
        )

    def deps(self) -> Dependencies:
        """CSR form of all links."""
        table = np.concatenate([*self._links, np.array(self._more, np.int64).reshape(-1, 3)])
        table = table[np.lexsort((table[:, 1], table[:, 0]))]
        ptr = np.zeros(self.count + 1, np.int64)
        np.cumsum(np.bincount(table[:, 0], minlength=self.count), out=ptr[1:])
        return Dependencies(
            ptr,
            table[:, 1].astype(np.int32),
            table[:, 2].astype(np.uint8),
            np.zeros(len(table), np.bool_),
        )
