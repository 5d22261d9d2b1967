"""What a Kineto trace tells of collectives (kernels, annotations) and of CUDA synchronisation."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Annotated, Any, Final

import msgspec
import numpy as np

from paceline.graph import NONE, Collective
from paceline.trace.readers.laneindex import LaneIndex
from paceline.trace.spelling import ELEMENT_BYTES, collective_of, dtype_of
from paceline.trace.trace import (
    Category,
    Collectives,
    Events,
    SyncKind,
    Syncs,
    columns,
)

_KERNEL: Final = re.compile(r"nccl(?:Dev)?Kernel_([A-Za-z]+)")
_ANNOTATION: Final = re.compile(r"(?:nccl|gloo|mpi|ucc|xccl|ccl):_?([a-z_]+)")
_LIBRARY: Final = re.compile(r"(?:nccl(?:Dev)?Kernel|rccl|mscclKernel|oneccl|ccl_)", re.IGNORECASE)
"""Kernels of NCCL, RCCL, MSCCL and oneCCL; the newer ones are generic and do not say which
collective they run, but the call around their launch does."""
_SYNCS: Final = {
    "Event Sync": SyncKind.EVENT_SYNC,
    "Stream Wait Event": SyncKind.STREAM_WAIT,
    "Stream Sync": SyncKind.STREAM_SYNC,
    "Context Sync": SyncKind.DEVICE_SYNC,
}
"""CUPTI's names of `cuda_sync_kind`."""
_OP: Final = 3  # column of `Collectives`
_MOST_ELEMENTS: Final = 2**55
"""More of them no column of bytes could count."""


Index = Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31 - 1)]
Count = Annotated[int, msgspec.Meta(ge=-(2**55), le=_MOST_ELEMENTS)]


class Detail(msgspec.Struct):
    """The `args` of an event that tells of communication or synchronisation."""

    collective: str = msgspec.field(name="Collective name", default="")
    in_elements: Count = msgspec.field(name="In msg nelems", default=0)
    out_elements: Count = msgspec.field(name="Out msg nelems", default=0)
    dtype: str = ""
    group: str = msgspec.field(name="Process Group Name", default="")
    ranks: str = msgspec.field(name="Process Group Ranks", default="")
    sequence: Count = msgspec.field(name="Seq", default=NONE)
    source_rank: Index = msgspec.field(name="Src Rank", default=NONE)
    target_rank: Index = msgspec.field(name="Dst Rank", default=NONE)
    shapes: Any = msgspec.field(name="Input Dims", default=None)
    types: Any = msgspec.field(name="Input type", default=None)
    sync_kind: str = msgspec.field(name="cuda_sync_kind", default="")
    device: Index = 0
    stream: Index = NONE
    source_stream: Index = msgspec.field(name="wait_on_stream", default=NONE)
    source_record: Count = msgspec.field(name="wait_on_cuda_event_record_corr_id", default=NONE)
    correlation: Count = NONE


@dataclass
class AddedNames:
    """Names and groups that the details added."""

    new_names: list[str] = field(default_factory=list)
    groups: dict[str, tuple[int, ...]] = field(default_factory=dict)


def collectives_of(
    events: Events, names: Sequence[str], details: Sequence[tuple[int, bytes]]
) -> tuple[Collectives, AddedNames]:
    """Every communication kernel, and every transfer on a communication thread."""
    by_row = {row: _detail(args) for row, args in details if row != NONE}
    op_of_name = [_op_of(name) for name in names]
    is_op = np.array([op is not Collective.NONE for op in op_of_name] or [False], np.bool_)
    moves = np.isin(events.category, (Category.KERNEL, Category.COMMUNICATION))
    is_library = np.array([bool(_LIBRARY.match(name)) for name in names] or [False], np.bool_)
    is_library &= ~is_op
    rows = np.zeros(0, np.intp)
    if len(events):
        generic = (events.category == Category.KERNEL) & is_library[events.name]
        rows = np.flatnonzero((moves & is_op[events.name]) | generic)
    context = _annotations_around(events, names, rows)
    index = {name: number for number, name in enumerate(names)}
    added, table = AddedNames(), []
    for row in rows:
        detail = by_row.get(int(row)) or Detail()
        call = context.get(int(row), NONE)
        op = op_of_name[events.name[row if call == NONE else call]]
        made = _row(int(row), op, detail, by_row.get(call) or detail, index, added)
        if made[_OP] != Collective.NONE:
            table.append(made)
    return columns(Collectives, table), added


def syncs_of(details: Sequence[bytes], lanes: LaneIndex) -> Syncs:
    """What CUPTI's synchronisation records say."""
    rows = []
    for args in details:
        detail = _detail(args)
        if detail.sync_kind in _SYNCS:
            lane = lanes.stream(detail.device, detail.stream)
            source = lanes.stream(detail.device, detail.source_stream)
            kind = _SYNCS[detail.sync_kind]
            rows.append((kind, detail.correlation, lane, source, detail.source_record))
    return columns(Syncs, rows)


def _row(
    row: int,
    op: Collective,
    detail: Detail,
    around: Detail,
    index: dict[str, int],
    added: AddedNames,
) -> tuple[int, ...]:
    """One row of `Collectives`; what the kernel does not say is taken from the call around it."""
    stated = detail if detail.collective else around
    op = collective_of(stated.collective) or op
    dtype = dtype_of(stated.dtype) or dtype_of(_first(stated.types))
    elements = max(stated.in_elements, stated.out_elements) or _elements(stated.shapes)
    group = NONE
    if stated.group:
        group = index.setdefault(stated.group, len(index))
        if group == len(index) - 1 and stated.group not in added.new_names:
            added.new_names.append(stated.group)
        added.groups.setdefault(stated.group, _ranks(stated.ranks))
    size = elements * ELEMENT_BYTES[dtype] if elements <= _MOST_ELEMENTS else 0
    sends = stated.target_rank != NONE
    peer = stated.target_rank if sends else stated.source_rank
    return row, group, stated.sequence, op, dtype, size, peer, sends, NONE


def _annotations_around(events: Events, names: Sequence[str], rows: Any) -> dict[int, int]:
    """For each collective kernel the annotation on the host in which it was launched."""
    speaks = np.array([bool(_ANNOTATION.match(name)) for name in names] or [False], np.bool_)
    calls = events.category == Category.ANNOTATION
    calls = np.flatnonzero(calls & speaks[events.name]) if len(events) else np.zeros(0, np.intp)
    if not len(calls) or not len(rows):
        return {}
    call = _calls_of(events, rows)
    found: dict[int, int] = {}
    for lane in np.unique(events.lane[calls]):
        here = calls[events.lane[calls] == lane]
        mine = np.flatnonzero((call != NONE) & (events.lane[call] == lane))
        moments = events.start_ns[call[mine]]
        at = np.searchsorted(events.start_ns[here], moments, "right") - 1
        inside = (at >= 0) & (events.end_ns[here[at]] >= moments)
        found |= zip(rows[mine[inside]].tolist(), here[at[inside]].tolist())
    return found


def _calls_of(events: Events, rows: Any) -> Any:
    """The driver call that launched each of these kernels, the last of its number; NONE without."""
    runtime = np.flatnonzero(events.category == Category.RUNTIME)
    runtime = runtime[np.argsort(events.correlation[runtime], kind="stable")]
    numbers, wanted = events.correlation[runtime], events.correlation[rows]
    at = np.searchsorted(numbers, wanted, "right") - 1
    if not len(runtime):
        return np.full(len(rows), NONE, np.int64)
    return np.where((at >= 0) & (numbers[at] == wanted), runtime[at], NONE)


def _op_of(name: str) -> Collective:
    match = _KERNEL.match(name) or _ANNOTATION.match(name)
    return collective_of(match[1]) if match else Collective.NONE


def _detail(args: bytes) -> Detail:
    try:
        return _DETAIL.decode(args)
    except msgspec.ValidationError:
        return Detail()  # an argument of another type than any profiler writes: nothing is known


def _first(types: Any) -> str:
    found = types[0] if isinstance(types, list) and types else ""
    return _first(found) if isinstance(found, list) else str(found)


def _elements(shapes: Any) -> int:
    """Elements of all tensors in `Input Dims`: [[3, 4]] is one of 12."""
    if not isinstance(shapes, list) or not shapes:
        return 0
    if all(isinstance(size, int) for size in shapes):
        return prod(shapes)
    return sum(_elements(shape) for shape in shapes)


def _ranks(text: str) -> tuple[int, ...]:
    """Members from "[0, 1]"; torch cuts long lists short with dots: unknown then."""
    return () if "..." in text else tuple(int(number) for number in re.findall(r"\d+", text))


_DETAIL: Final = msgspec.json.Decoder(Detail)
