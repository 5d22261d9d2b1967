"""The ranks' blocks and their joined communication -> one `Graph`."""

import ctypes
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Final

import numpy as np

from paceline.graph import (
    NONE,
    Basis,
    Dependencies,
    Device,
    DeviceKind,
    Discipline,
    Drains,
    Graph,
    LaneKind,
    Lanes,
    MemoryEvents,
    OpColumns,
    OpKind,
)
from paceline.graph.border import COLUMN_TYPES, UNSCALED
from paceline.graph.work import Recorded
from paceline.trace.assemble import RankBlock
from paceline.trace.join import Joined
from paceline.trace.trace import Int32, Int64, select

_AS_THEY_ARE: Final = ("kind", "phase", "dur_ns", "size_bytes", "flops", "dtype", "step")
_AT_A_TIME: Final = 32
"""Blocks after which their memory is given back."""
_THREAD: Final = re.compile(r"thread -?\d+(?: \((.*)\))?")


def stack(blocks: list[RankBlock], joined: Joined, meta: Mapping[str, Any]) -> Graph:
    """One graph of all ranks; the ops of a rank stay together, in order of time. Where no recorder
    told more, the rows go from the blocks in the list: nothing else asks for them."""
    first_op = np.cumsum([0, *(len(block.rows) for block in blocks)])
    devices, device_of = _devices(blocks)
    lanes, first_lane = _lanes(blocks, device_of)
    names, name_of = _names(blocks)
    works, work_of = _works(blocks)
    return Graph(
        ops=_ops(blocks, joined, first_op, first_lane, _Pools(name_of, work_of)),
        deps=dependencies(int(first_op[-1]), _shifted(blocks, first_op)),
        lanes=lanes,
        devices=devices,
        groups=joined.groups,
        names=names,
        drains=_drains(blocks, first_op, first_lane),
        memory=_memory(blocks, first_op, device_of),
        works=works,
        meta=meta,
    )


def dependencies(count: int, table: Int64) -> Dependencies:
    """CSR form of columns (op, src, kind, inferred); of equal links the first is kept."""
    op, src, kind, inferred = table
    order = np.lexsort((src, op))
    op, src = op[order], src[order]
    new = np.ones(len(op), np.bool_)
    new[1:] = (op[1:] != op[:-1]) | (src[1:] != src[:-1])
    order, op, src = order[new], op[new], src[new]
    ptr = np.zeros(count + 1, np.int64)
    np.cumsum(np.bincount(op, minlength=count), out=ptr[1:])
    return Dependencies(
        ptr,
        src.astype(np.int32),
        kind[order].astype(np.uint8),
        inferred[order].astype(np.bool_),
    )


def _shifted(blocks: Sequence[RankBlock], first_op: Int64) -> Int64:
    parts = [np.zeros((4, 0), np.int64)]
    for block, first in zip(blocks, first_op):
        table = block.deps.copy()
        table[:2] += first
        parts.append(table)
    return np.concatenate(parts, axis=1)


def _devices(blocks: Sequence[RankBlock]) -> tuple[tuple[Device, ...], dict[tuple[int, int], int]]:
    """A host processor for each rank and its GPUs; and (block, device number) -> row."""
    devices: list[Device] = []
    row: dict[tuple[int, int], int] = {}
    for number, block in enumerate(blocks):
        trace = block.view.trace
        named = trace.facts.get("devices", [])
        memory = trace.facts.get("device_memory_bytes", [])
        host = int(trace.facts.get("host", number))
        row[number, NONE] = len(devices)
        devices.append(Device(f"rank {trace.rank} host", host, DeviceKind.CPU))
        for gpu in sorted({lane.device for lane in trace.lanes if lane.device != NONE}):
            name = named[gpu] if 0 <= gpu < len(named) else "GPU"
            row[number, gpu] = len(devices)
            size = memory[gpu] if 0 <= gpu < len(memory) else 0
            devices.append(Device(f"rank {trace.rank} {name}", host, DeviceKind.GPU, size))
    return tuple(devices), row


def _lanes(
    blocks: Sequence[RankBlock], device_of: dict[tuple[int, int], int]
) -> tuple[Lanes, Int64]:
    flat = [
        (n, b.view.trace.rank, lane) for n, b in enumerate(blocks) for lane in b.view.trace.lanes
    ]
    lanes = Lanes(
        np.array([rank for _, rank, _ in flat], np.int32),
        np.array([device_of[number, lane.device] for number, _, lane in flat], np.int32),
        np.array([lane.kind for _, _, lane in flat], np.uint8),
        np.full(len(flat), Discipline.RECORDED, np.uint8),
        tuple(name for block in blocks for name in _lane_names(block)),
    )
    return lanes, np.cumsum([0, *(len(b.view.trace.lanes) for b in blocks)])


def _lane_names(block: RankBlock) -> list[str]:
    """Names that are equal for what is equal on all ranks: without thread ids."""
    main, found = block.main_lane, []
    plain = _spoken(block.view.trace.lanes[main].name) if main != NONE else ""
    for row, lane in enumerate(block.view.trace.lanes):
        name = lane.name if lane.kind is LaneKind.STREAM else _spoken(lane.name)
        if row == main:
            name = "main thread"
        elif name == plain or not name:
            name = f"thread {row}"
        found.append(name)
    return found


def _spoken(name: str) -> str:
    """Kineto's "thread 4711 (pt_autograd_0)" is "pt_autograd_0"."""
    given = _THREAD.fullmatch(name)
    return (given[1] or "") if given else name


def _names(blocks: Sequence[RankBlock]) -> tuple[tuple[str, ...], list[Int32]]:
    """One pool of names, and for each block where its own went."""
    index: dict[str, int] = {}
    moved = [
        np.array([index.setdefault(text, len(index)) for text in block.names], np.int32)
        for block in blocks
    ]
    return tuple(index), moved


@dataclass(frozen=True, eq=False)
class _Pools:
    """For each block where its names and its recorded work went."""

    names: list[Int32]
    works: list[Int32]


def _works(blocks: Sequence[RankBlock]) -> tuple[tuple[Recorded, ...], list[Int32]]:
    """One table of recorded work, and for each block where its own went; the last is NONE's."""
    index: dict[Recorded, int] = {}
    moved = [
        np.array([*(index.setdefault(w, len(index)) for w in block.works), NONE], np.int32)
        for block in blocks
    ]
    return tuple(index), moved


def _ops(
    blocks: list[RankBlock],
    joined: Joined,
    first_op: Int64,
    first_lane: Int64,
    pools: _Pools,
) -> OpColumns:
    """Block after block; what was taken over of one is let go, where nothing else asks for it, so
    that a large run is never held twice."""
    columns, none = _empty_columns(int(first_op[-1])), np.zeros(0, np.int64)
    foreign = all(block.view.sidecar is None for block in blocks)
    for number, block in enumerate(blocks):
        mine = slice(int(first_op[number]), int(first_op[number + 1]))
        for name, values in _of_block(block, number, int(first_lane[number]), pools).items():
            columns[name][mine] = values
        if foreign:
            blocks[number] = replace(block, rows=select(block.rows, none))
            if number % _AT_A_TIME == 0:
                _give_back()
    _put_communication(columns, joined, first_op)
    return OpColumns(**columns)


def _give_back() -> None:
    """Freed memory goes to the system, which glibc puts off; elsewhere there is no such call."""
    library = ctypes.CDLL(None) if sys.platform == "linux" else None
    if library is not None and hasattr(library, "malloc_trim"):
        library.malloc_trim(0)


def _empty_columns(count: int) -> dict[str, Any]:
    alike = {
        "group": NONE,
        "instance": NONE,
        "tensor": NONE,
        "collective": 0,
        "priority": 0,
        "basis": Basis.RECORDED,
        "scale_ppb": UNSCALED,
    }
    kinds = {item.name: COLUMN_TYPES[item.name] for item in fields(OpColumns)}
    return {
        name: np.full(count, alike[name], kind) if name in alike else np.empty(count, kind)
        for name, kind in kinds.items()
    }


def _of_block(block: RankBlock, number: int, first_lane: int, pools: _Pools) -> dict[str, Any]:
    rows, names = block.rows, pools.names[number]
    return {
        "rank": block.view.trace.rank,
        "lane": rows.lane + np.int32(first_lane),
        "name": names[rows.name],
        "layer": np.where(rows.layer < 0, NONE, names[np.maximum(rows.layer, 0)]),
        "work": pools.works[number][rows.work],
        **{name: getattr(rows, name) for name in _AS_THEY_ARE},
    }


def _put_communication(columns: dict[str, Any], joined: Joined, first_op: Int64) -> None:
    members = joined.members
    if not len(members):
        return
    op = first_op[members.block] + members.op
    columns["kind"][op] = joined.kind
    columns["dur_ns"][op] = joined.dur_ns
    columns["size_bytes"][op] = joined.size_bytes
    columns["group"][op] = joined.group
    columns["instance"][op] = np.where(joined.kind == OpKind.TRANSFER, NONE, joined.instance)
    columns["collective"][op] = members.collective
    columns["dtype"][op] = members.dtype


def _drains(blocks: Sequence[RankBlock], first_op: Int64, first_lane: Int64) -> Drains:
    op = np.concatenate([b.drains[0] + f for b, f in zip(blocks, first_op)])
    lane = np.concatenate([b.drains[1] + f for b, f in zip(blocks, first_lane)])
    order = np.lexsort((lane, op))
    return Drains(op[order].astype(np.int32), lane[order].astype(np.int32))


def _memory(
    blocks: Sequence[RankBlock], first_op: Int64, device_of: dict[tuple[int, int], int]
) -> MemoryEvents:
    op = np.concatenate([b.memory[0] + f for b, f in zip(blocks, first_op)])
    delta = np.concatenate([b.memory[2] for b in blocks])
    return MemoryEvents(
        op.astype(np.int32),
        np.concatenate([_rows_of_devices(b, n, device_of) for n, b in enumerate(blocks)]),
        delta,
        np.concatenate([b.memory[3] for b in blocks]).astype(np.uint8),
        np.zeros(len(op), np.bool_),
    )


def _rows_of_devices(block: RankBlock, number: int, device_of: dict[tuple[int, int], int]) -> Int32:
    """The device of each of a block's memory events; one that no lane names is the host."""
    named, which = np.unique(block.memory[1], return_inverse=True)
    host = device_of[number, NONE]
    rows = np.array([device_of.get((number, one), host) for one in named.tolist()], np.int32)
    return rows[which]
