"""NCCL flight-recorder dumps: group and sequence of each collective, as pickle or JSON.

A dump is a ring of the last calls of one rank, without kernel times. `completed_by` gives what it
knows to the Kineto trace of the same rank. A pickle can run code when it is loaded; here anything
but plain values is refused.
"""

import io
import json
import pickle
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

from paceline.errors import TraceError
from paceline.graph import NONE, Collective
from paceline.trace.readers.source import Source
from paceline.trace.spelling import ELEMENT_BYTES, collective_of, dtype_of
from paceline.trace.trace import Collectives, Trace
from paceline.trace.view import RankView

_PICKLE: Final = b"\x80"


@dataclass(frozen=True)
class Call:
    """One collective as the host issued it."""

    group: str
    sequence: int
    op: Collective
    dtype: int
    size_bytes: int
    created_ns: int  # Unix time


@dataclass(frozen=True)
class FlightRecord:
    """One rank's dump."""

    source: str
    rank: int  # NONE where neither the dump nor the file's name tells
    groups: Mapping[str, tuple[int, ...]]
    calls: tuple[Call, ...]


def is_flight_record(head: bytes) -> bool:
    if head.startswith(_PICKLE):
        return True
    return (
        head.lstrip().startswith(b"{") and b'"pg_config"' in head and b'"traceEvents"' not in head
    )


def read(source: Source) -> FlightRecord:
    data = source.read()
    content = _unpickled(source, data) if data.startswith(_PICKLE) else _parsed(source, data)
    entries = content.get("entries")
    if not isinstance(entries, list):
        raise TraceError(f"{source.name} is no flight-recorder dump: it has no entries")
    return FlightRecord(
        source.name,
        _rank(source, content),
        _groups(content.get("pg_config") or {}),
        tuple(_call(entry) for entry in entries),
    )


def completed_by(record: FlightRecord, trace: Trace) -> Trace:
    """The trace with group and sequence of each collective that the dump knows too: for each
    kernel the last call of its kind that was issued by the time of its launch."""
    collectives, view = trace.collectives, RankView(trace)
    launched = _launches(view, collectives)
    names = {name: row for row, name in enumerate(trace.names)}
    group, sequence, size = (
        collectives.group.copy(),
        collectives.sequence.copy(),
        collectives.size_bytes.copy(),
    )
    found = 0
    for op in np.unique(collectives.op).tolist():
        calls = sorted((c for c in record.calls if c.op == op), key=lambda c: c.created_ns)
        rows = np.flatnonzero(collectives.op == op)
        rows = rows[np.argsort(launched[rows], kind="stable")]
        for row, call in _paired(rows.tolist(), launched, calls):
            group[row] = names.setdefault(call.group, len(names))
            sequence[row], size[row] = call.sequence, call.size_bytes or size[row]
            found += 1
    known = replace(collectives, group=group, sequence=sequence, size_bytes=size)
    merged = replace(
        trace,
        names=tuple(names),
        collectives=known,
        groups={**record.groups, **trace.groups},
    )
    missing = len(collectives) - found
    note = f"the flight recorder does not know {missing} of {len(collectives)} collectives"
    return merged.noting(note) if missing else merged


class _PlainUnpickler(pickle.Unpickler):
    """Loads containers, text and numbers; nothing that could run code."""

    def find_class(self, module: str, name: str) -> Any:
        raise pickle.UnpicklingError(f"it asks for {module}.{name}, which a dump never needs")


def _unpickled(source: Source, data: bytes) -> Mapping[str, Any]:
    try:
        found = _PlainUnpickler(io.BytesIO(data)).load()
    except (pickle.UnpicklingError, EOFError, IndexError, ValueError, AttributeError) as error:
        raise TraceError(f"{source.name} is no plain flight-recorder pickle: {error}") from error
    if not isinstance(found, dict):
        raise TraceError(f"{source.name} is no flight-recorder dump but a {type(found).__name__}")
    return found


def _parsed(source: Source, data: bytes) -> Mapping[str, Any]:
    try:
        found = json.loads(data)
    except ValueError as error:
        raise TraceError(f"{source.name} is no valid JSON: {error}") from error
    return found if isinstance(found, dict) else {}


def _rank(source: Source, content: Mapping[str, Any]) -> int:
    if isinstance(content.get("rank"), int):
        return int(content["rank"])
    found = re.search(r"(\d+)(?:\.\w+)*$", source.member or source.path.name)
    return int(found[1]) if found else NONE


def _groups(config: Any) -> dict[str, tuple[int, ...]]:
    """`pg_config`: by group, `ranks` as a list or as its text."""
    rows = config.values() if isinstance(config, dict) else config
    found = {}
    for row in rows:
        ranks = row.get("ranks", [])
        members = ranks if isinstance(ranks, list) else re.findall(r"\d+", str(ranks))
        found[str(row.get("name", row.get("pg_name", "")))] = tuple(int(rank) for rank in members)
    return found


def _call(entry: Mapping[str, Any]) -> Call:
    group = entry.get("process_group") or [entry.get("pg_name", "")]
    types = entry.get("input_dtypes") or [""]
    dtype = dtype_of(str(types[0]))
    elements = sum(int(np.prod(sizes)) for sizes in entry.get("input_sizes") or [])
    return Call(
        str(group[0] if isinstance(group, (list, tuple)) else group),
        int(entry.get("collective_seq_id", entry.get("seq_id", NONE))),
        collective_of(str(entry.get("profiling_name", "")).partition(":")[2]),
        dtype,
        elements * ELEMENT_BYTES[dtype],
        int(entry.get("time_created_ns", 0)),
    )


def _launches(view: RankView, collectives: Collectives) -> Any:
    """When the host launched each collective; its own start where the trace does not tell."""
    events = view.trace.events
    call = np.full(len(events), NONE, np.int64)
    call[view.calls.work] = view.calls.call
    asked = call[collectives.event]
    return np.where(asked == NONE, events.start_ns[collectives.event], events.start_ns[asked])


def _paired(rows: list[int], launched: Any, calls: Sequence[Call]) -> list[tuple[int, Call]]:
    """Rows and calls of one kind: from the last row back, the latest call issued by then."""
    pairs, left = [], list(calls)
    for row in reversed(rows):
        while left and left[-1].created_ns > launched[row]:
            left.pop()
        if left:
            pairs.append((row, left.pop()))
    return pairs
