"""Chrome-format traces: scanned once, then read as PyTorch's (`kineto`) or as another framework's
(TensorFlow, MXNet, JAX: `foreign`)."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import msgspec
import numpy as np

from paceline.errors import TraceError
from paceline.trace.readers import foreign, kineto
from paceline.trace.readers.nested import nested
from paceline.trace.readers.processes import by_process
from paceline.trace.readers.rawevents import TEXT_BASE, Int64, RawEvents
from paceline.trace.readers.repair import mended
from paceline.trace.readers.repeated import without_repeats
from paceline.trace.readers.scan import scan
from paceline.trace.readers.source import Source
from paceline.trace.trace import Category, Trace


def read(source: Source, *, salvage: bool = False) -> Trace:
    """The one trace in a Chrome-format file; `salvage` takes what a truncated one still holds."""
    found = read_each(source, salvage=salvage)
    if len(found) > 1:
        raise TraceError(
            f"{source.name} holds the traces of {len(found)} processes, and one is read here: "
            "import it by itself and without --on, or give each rank's own file"
        )
    return found[0]


def read_each(source: Source, *, salvage: bool = False) -> list[Trace]:
    """A trace for each process of the file: one, unless several ranks' were merged into it."""
    raw = scan(source.chunks(salvage=salvage))
    if wrong := nested(source.head()) if not len(raw.ranges) or not raw.whole else "":
        raise TraceError(f"{source.name} {wrong}")
    if not raw.whole and not salvage:
        raise TraceError(
            f"{source.name} ends in the middle: its JSON is not complete after "
            f"{len(raw.ranges)} events, and events are not in order of time, so what is "
            "missing is not known. Export it again, or pass --salvage to take what is there"
        )
    if not len(raw.ranges):
        raise TraceError(f"{source.name} holds no events; was the profiler running?")
    header = _header(raw)
    is_torch = kineto.is_kineto(raw, header)
    found = _of_torch(source, raw, header) if is_torch else _of_others(source, raw)
    if not any(len(trace.events) for trace in found):
        raise TraceError(
            f"{source.name} holds no ops or kernels, only {len(raw.ranges)} other events"
        )
    return [found[0].noting(*_notes(raw)), *found[1:]]


def _of_others(source: Source, raw: RawEvents) -> list[Trace]:
    return [foreign.trace_of(source.name, "chrome", _lines(raw))]


def _of_torch(source: Source, raw: RawEvents, header: dict[str, Any]) -> list[Trace]:
    single, repeats = without_repeats(raw)
    parts = by_process(source.name, single, kineto.categories(single))
    found = [kineto.trace_of(source.name, part, header) for part in parts]
    if len(found) > 1:
        found = [replace(trace, rank=rank) for rank, trace in enumerate(found)]
    found = [trace.noting(*_of_devices(trace)) for trace in found]
    return [found[0].noting(*_merged(repeats, len(found))), *found[1:]]


def _merged(repeats: int, processes: int) -> Iterator[str]:
    if repeats:
        yield f"{repeats} events stand in the file a second time and are counted once"
    if processes > 1:
        yield (
            f"the file holds {processes} processes: each is taken as a rank, in the order of their "
            "devices (inferred)"
        )


def _of_devices(trace: Trace) -> Iterator[str]:
    kernels = trace.events.category == Category.KERNEL
    lanes = np.unique(trace.events.lane[kernels]).tolist()
    devices = sorted({trace.lanes[lane].device for lane in lanes})
    if len(devices) > 1:
        yield (
            f"kernels of one process ran on devices {', '.join(map(str, devices))}: they are one "
            "rank, and its shares of the peak are of all of them"
        )


def _notes(raw: RawEvents) -> Iterator[str]:
    if not raw.whole:
        yield f"truncated after {len(raw.ranges)} events; what followed is left out"
    if raw.repaired:
        yield f"{raw.repaired} events of invalid JSON were mended"
    if raw.lost:
        yield f"{raw.lost} events of invalid JSON could not be read and are left out"


def _header(raw: RawEvents) -> dict[str, Any]:
    """The document without its events; empty for a bare array of events."""
    for text in (raw.header, mended(raw.header)):
        try:
            found = msgspec.json.decode(text)
        except (msgspec.DecodeError, UnicodeDecodeError):
            continue
        return found if isinstance(found, dict) else {}
    return {}


def _lines(raw: RawEvents) -> Iterator[foreign.ProfileLine]:
    """Each (process, thread) as a line, with begins and ends paired."""
    processes, threads = _labels(raw)
    row, start, end = _whole_ranges(raw)
    pid, tid = raw.ranges.pid[row], raw.ranges.tid[row]
    for owner, number in sorted(set(zip(pid.tolist(), tid.tolist()))):
        here = (pid == owner) & (tid == number)
        names = [raw.names[i] for i in raw.ranges.name[row[here]].tolist()]
        process = processes.get(owner) or _spoken(raw, owner, "process")
        thread = threads.get((owner, number)) or _spoken(raw, number, "thread")
        yield foreign.ProfileLine(process, thread, names, start[here], end[here])


def _spoken(raw: RawEvents, number: int, what: str) -> str:
    return raw.names[TEXT_BASE - number] if number <= TEXT_BASE else f"{what} {number}"


def _labels(raw: RawEvents) -> tuple[dict[int, str], dict[tuple[int, int], str]]:
    """Names of processes and of threads, from the metadata events."""
    processes, threads = {}, {}
    for text in raw.metadata:
        mark = msgspec.json.decode(text)
        label = str((mark.get("args") or {}).get("name", ""))
        if mark.get("name") == "process_name" and isinstance(mark.get("pid"), int):
            processes[mark["pid"]] = label
        elif mark.get("name") == "thread_name" and isinstance(mark.get("tid"), int):
            threads[mark.get("pid", 0), mark["tid"]] = label
    return processes, threads


def _whole_ranges(raw: RawEvents) -> tuple[Any, Int64, Int64]:
    """Rows, starts and ends of X events, and of B events paired with their E."""
    marks = raw.ranges.mark
    whole = np.flatnonzero(marks == ord("X"))
    row, end = whole.tolist(), (raw.ranges.start_ns + raw.ranges.dur_ns)[whole].tolist()
    open_rows: dict[tuple[int, int], list[int]] = {}
    for at in np.flatnonzero(marks != ord("X")).tolist():
        lane = (int(raw.ranges.pid[at]), int(raw.ranges.tid[at]))
        if marks[at] == ord("B"):
            open_rows.setdefault(lane, []).append(at)
        elif open_rows.get(lane):
            row.append(open_rows[lane].pop())
            end.append(int(raw.ranges.start_ns[at]))
    rows = np.array(row, np.int64)
    return rows, raw.ranges.start_ns[rows], np.array(end, np.int64)
