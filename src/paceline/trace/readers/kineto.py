"""PyTorch's Kineto traces (1.8 to 2.13): `RawEvents` and the document's header -> `Trace`."""

import re
from collections.abc import Mapping
from typing import Any, Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from paceline.errors import TraceError
from paceline.graph import NONE, LaneKind, MemoryCategory
from paceline.trace.readers.communication import collectives_of, syncs_of
from paceline.trace.readers.laneindex import LaneIndex
from paceline.trace.readers.rawevents import ABSENT, TEXT_BASE, RawEvents
from paceline.trace.trace import Allocations, Category, Events, Flows, Int64, Steps, Trace

CATEGORIES: Final[Mapping[str, Category]] = {
    "cpu_op": Category.CPU_OP,
    "Operator": Category.CPU_OP,  # PyTorch 1.8 to 1.12
    "user_annotation": Category.ANNOTATION,
    "python_function": Category.PYTHON,
    "cuda_runtime": Category.RUNTIME,
    "cuda_driver": Category.RUNTIME,
    "Runtime": Category.RUNTIME,
    "hip_runtime": Category.RUNTIME,
    "hip_driver": Category.RUNTIME,
    "xpu_runtime": Category.RUNTIME,
    "xpu_driver": Category.RUNTIME,
    "privateuse1_runtime": Category.RUNTIME,
    "privateuse1_driver": Category.RUNTIME,
    "kernel": Category.KERNEL,
    "Kernel": Category.KERNEL,
    "gpu_memcpy": Category.MEMCPY,
    "Memcpy": Category.MEMCPY,
    "gpu_memset": Category.MEMSET,
    "Memset": Category.MEMSET,
}
"""`cat` of events that take part; other ranges (device-side annotations, spans) repeat them."""

ON_DEVICE: Final = (Category.KERNEL, Category.MEMCPY, Category.MEMSET)
_STEP_MARK: Final = re.compile(r"ProfilerStep\s*#(\d+)")
_GLOO: Final = "gloo:"
_LATEST_NS: Final = 1 << 61


def is_kineto(raw: RawEvents, header: Mapping[str, Any]) -> bool:
    return "schemaVersion" in header or any(name in CATEGORIES for name in raw.names)


def trace_of(source: str, raw: RawEvents, header: Mapping[str, Any]) -> Trace:
    """The trace of one rank."""
    base = _base_ns(source, header)
    lanes = LaneIndex(thread_names(raw))
    category = categories(raw)
    steps, is_mark = _steps(raw, category, base)
    kept = np.flatnonzero((category != ABSENT) & ~is_mark & (raw.ranges.mark == ord("X")))
    lane = _lanes(raw, category[kept], kept, lanes)
    start = raw.ranges.start_ns[kept] + base
    end = start + np.maximum(raw.ranges.dur_ns[kept], 0)
    order = np.lexsort((-end, start, lane))
    order = order[~_work_of_transfers(category[kept][order], lane[order], start[order], end[order])]
    lanes.mark_communication(_only_transfers(category[kept][order], lane[order]))
    kept, row_of = kept[order], np.full(len(raw.ranges), NONE, np.int32)
    row_of[kept] = np.arange(len(kept), dtype=np.int32)
    events = _events(raw, kept, category[kept], lane[order], start[order], end[order])
    groups, job = _distributed(header)
    details = [(int(row_of[row]), args) for row, args in raw.details]
    collectives, seen = collectives_of(events, raw.names, details)
    flows, allocations = _flows(raw, base, lanes), _allocations(raw, base, lanes)
    syncs = syncs_of([args for _, args in raw.details], lanes)
    return Trace(
        source=source,
        format="kineto",
        events=events,
        lanes=lanes.lanes(),
        names=(*raw.names, *seen.new_names),
        rank=int(job.get("rank", NONE)),
        world_size=int(job.get("world_size", 0)),
        collectives=collectives,
        syncs=syncs,
        flows=flows,
        allocations=allocations,
        steps=steps,
        groups={**groups, **seen.groups},
        facts=_facts(header),
        forms=tuple(raw.forms),
    )


def _base_ns(source: str, header: Mapping[str, Any]) -> int:
    """What is to be added to every moment."""
    base = header.get("baseTimeNanoseconds", 0)
    if not isinstance(base, int) or not 0 <= base < _LATEST_NS:
        raise TraceError(
            f"{source}: baseTimeNanoseconds is {str(base)[:40]}; it must be a whole number of "
            f"nanoseconds since 1970, below {_LATEST_NS}. Profile again, or mend the header"
        )
    return base


def thread_names(raw: RawEvents) -> dict[tuple[int, int], str]:
    """Names given to threads and streams by metadata events."""
    found = {}
    for text in raw.metadata:
        mark = msgspec.json.decode(text)
        if mark.get("name") == "thread_name" and isinstance(mark.get("tid"), int):
            name = mark.get("args", {}).get("name", "")
            found[_pid(mark), mark["tid"]] = str(name)
    return found


def _pid(mark: Mapping[str, Any]) -> int:
    return mark["pid"] if isinstance(mark.get("pid"), int) else 0


def categories(raw: RawEvents) -> NDArray[np.int16]:
    """`Category` of each range, ABSENT for those that take no part; gloo's transfers are marked."""
    of_name = np.array([int(CATEGORIES.get(name, ABSENT)) for name in raw.names], np.int16)
    category = of_name[raw.ranges.category] if len(raw.ranges) else np.zeros(0, np.int16)
    gloo = np.array([name.startswith(_GLOO) for name in raw.names], np.bool_)
    if gloo.any():
        transfer = gloo[raw.ranges.name] & (category == Category.ANNOTATION)
        category[transfer] = Category.COMMUNICATION
    return category


def _steps(
    raw: RawEvents, category: NDArray[np.int16], base: int
) -> tuple[Steps, NDArray[np.bool_]]:
    """Steps marked by the profiler's schedule, and which rows are such marks."""
    number = np.full(len(raw.names), ABSENT, np.int64)
    for index, name in enumerate(raw.names):
        if mark := _STEP_MARK.match(name):
            number[index] = int(mark[1])
    of_row = number[raw.ranges.name] if len(raw.ranges) else np.zeros(0, np.int64)
    rows = np.flatnonzero((of_row != ABSENT) & (category == Category.ANNOTATION))
    rows = rows[np.argsort(of_row[rows], kind="stable")]
    start = raw.ranges.start_ns[rows] + base
    steps = Steps(of_row[rows], start, start + raw.ranges.dur_ns[rows])
    return steps, of_row != ABSENT


def _lanes(
    raw: RawEvents, category: NDArray[np.int16], kept: NDArray[np.intp], lanes: "LaneIndex"
) -> NDArray[np.int32]:
    """Lane of each kept row: (process, thread) on the host, (device, stream) on the device."""
    pid, tid = raw.ranges.pid[kept], raw.ranges.tid[kept]
    on_device = np.isin(category, ON_DEVICE)
    named = on_device & (tid <= TEXT_BASE)  # PyTorch 1.8 writes "stream 7"
    tid = np.where(named, raw.ranges.stream[kept], tid)
    lane = np.zeros(len(kept), np.int32)
    lane[on_device] = lanes.of(pid[on_device], tid[on_device], LaneKind.STREAM)
    host = ~on_device
    lane[host] = lanes.of(pid[host], tid[host], LaneKind.THREAD)
    return lane


def _work_of_transfers(
    category: NDArray[np.int16], lane: NDArray[np.int32], start: Int64, end: Int64
) -> NDArray[np.bool_]:
    """Ranges that a communication library's thread runs within its transfers: copies, divisions.

    They are part of the transfer. A thread is the library's own if it has no ranges but such and
    transfers; rows come in order of (lane, start).
    """
    transfer = category == Category.COMMUNICATION
    inner = np.zeros(len(lane), np.bool_)
    for number in np.unique(lane[transfer]).tolist():
        here = np.flatnonzero(lane == number)
        moves = here[transfer[here]]
        others = here[~transfer[here]]
        around = np.searchsorted(start[moves], start[others], "right") - 1
        ends = np.where(around >= 0, end[moves[np.maximum(around, 0)]], -1)
        if (end[others] <= ends).all():
            inner[others] = True
    return inner


def _only_transfers(category: NDArray[np.int16], lane: NDArray[np.int32]) -> NDArray[np.int32]:
    """Lanes on which nothing happens but transfers."""
    transfers = category == Category.COMMUNICATION
    return np.setdiff1d(lane[transfers], lane[~transfers])


def _events(
    raw: RawEvents,
    kept: NDArray[np.intp],
    category: NDArray[np.int16],
    lane: NDArray[np.int32],
    start: NDArray[np.int64],
    end: NDArray[np.int64],
) -> Events:
    ranges = raw.ranges
    return Events(
        name=ranges.name[kept].astype(np.int32),
        category=category.astype(np.uint8),
        lane=lane,
        start_ns=start,
        end_ns=end,
        size_bytes=np.maximum(ranges.size_bytes[kept], 0),
        correlation=ranges.correlation[kept],
        sequence=ranges.sequence[kept],
        record=ranges.record[kept],
        backward=ranges.fwd_thread[kept] > 0,
        form=ranges.form[kept].astype(np.int32),
    )


def _flows(raw: RawEvents, base: int, lanes: "LaneIndex") -> Flows:
    """Forward op -> backward op arrows, joined by their id."""
    arrows = raw.arrows
    starts = np.flatnonzero(arrows.mark == ord("s"))
    ends = np.flatnonzero(arrows.mark == ord("f"))
    _, of_start, of_end = np.intersect1d(arrows.id[starts], arrows.id[ends], return_indices=True)
    src, dst = starts[of_start], ends[of_end]
    return Flows(
        lanes.of(arrows.pid[src], arrows.tid[src], LaneKind.THREAD),
        arrows.at_ns[src] + base,
        lanes.of(arrows.pid[dst], arrows.tid[dst], LaneKind.THREAD),
        arrows.at_ns[dst] + base,
    )


def _allocations(raw: RawEvents, base: int, lanes: "LaneIndex") -> Allocations:
    memory = raw.memory
    order = np.argsort(memory.at_ns, kind="stable")
    return Allocations(
        lanes.of(memory.pid[order], memory.tid[order], LaneKind.THREAD),
        memory.at_ns[order] + base,
        memory.address[order],
        memory.delta_bytes[order],
        np.where(memory.device_type[order] == 0, NONE, memory.device[order]).astype(np.int32),
        np.full(len(order), MemoryCategory.OTHER, np.uint8),
    )


def _distributed(
    header: Mapping[str, Any],
) -> tuple[dict[str, tuple[int, ...]], Mapping[str, Any]]:
    """Process groups by name, and what the header says of the job."""
    job = header.get("distributedInfo") or {}
    configured = job.get("pg_config") or []
    groups = {
        str(group["pg_name"]): tuple(int(rank) for rank in group["ranks"])
        for group in configured
        if "pg_name" in group and isinstance(group.get("ranks"), list)
    }
    return groups, job


def _facts(header: Mapping[str, Any]) -> dict[str, Any]:
    """What the header says of the machine and the job."""
    devices = header.get("deviceProperties") or []
    named = {
        "devices": [str(device.get("name", "")) for device in devices],
        "device_memory_bytes": [int(device.get("totalGlobalMem", 0)) for device in devices],
        "device_units": [int(device.get("numSms", 0)) for device in devices],
        "device_threads": [int(d.get("maxThreadsPerMultiprocessor", 0)) for d in devices],
        "backend": (header.get("distributedInfo") or {}).get("backend", ""),
        "nccl": (header.get("distributedInfo") or {}).get("nccl_version", ""),
        "trace": header.get("traceName", ""),
        "host_name": header.get("host_name", ""),
    }
    return {key: value for key, value in named.items() if value}
