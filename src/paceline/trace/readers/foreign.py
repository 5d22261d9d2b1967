"""Traces of other frameworks (JAX, TensorFlow, MXNet): named lines of named ranges -> `Trace`.

They tell ops, lanes and, by name, collectives; there are no launches to join, so what links one
lane with another is left to inference by `build`.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from paceline.graph import NONE, Collective, LaneKind
from paceline.trace.spelling import collective_of
from paceline.trace.trace import (
    Category,
    Collectives,
    Events,
    Int64,
    Steps,
    Trace,
    TraceLane,
    columns,
)


@dataclass(frozen=True, eq=False)
class ProfileLine:
    """One thread, stream or summary row of a profile."""

    process: str
    name: str
    names: Sequence[str]
    start_ns: Int64
    end_ns: Int64
    stated: Sequence[bytes] = ()  # of each range's work, as JSON; empty where nothing is


_SUMMARIES: Final = frozenset(
    {
        "Steps",
        "XLA Modules",
        "Framework Name Scope",
        "Framework Ops",
        "TensorFlow Name Scope",
        "TensorFlow Ops",
        "Source code",
        "XLA TraceMe",
        "Async XLA Ops",
    }
)
"""Rows that repeat what the ops' own row says, at another level."""

_DEVICE: Final = re.compile(r"(?:device:|/|^)(?:GPU|TPU)[:/ ]?(\d+)?", re.IGNORECASE)
_COLLECTIVE: Final = re.compile(
    r"(?:horovod_?|nccl(?:Dev)?(?:Kernel)?_?|xla::)?"
    r"(all-?_?reduce|all-?_?gather|reduce-?_?scatter|all-?_?to-?_?all|collective-permute|broadcast)"
    r"(?:-?_?(?:start|done))?",
    re.IGNORECASE,
)
_COPY: Final = re.compile(r"mem(?:cpy|set)|copy|infeed|outfeed", re.IGNORECASE)
_NUMBER: Final = re.compile(r"\d+")


def trace_of(source: str, kind: str, lines: Iterable[ProfileLine]) -> Trace:
    """The trace of one rank; `kind` is the format's name."""
    kept = [line for line in lines if len(line.names)]
    used = [line for line in kept if line.name not in _SUMMARIES]
    names: dict[str, int] = {}
    forms: dict[bytes, int] = {}
    lanes = tuple(_lane(line) for line in used)
    parts = [_rows(row, line, lanes[row], (names, forms)) for row, line in enumerate(used)]
    table = np.concatenate(parts) if parts else np.zeros((0, 6), np.int64)
    table = table[np.lexsort((-table[:, 4], table[:, 3], table[:, 2]))]
    return Trace(
        source=source,
        format=kind,
        events=_events(table),
        lanes=lanes,
        names=tuple(names),
        collectives=_collectives(table, list(names)),
        steps=_steps(kept),
        forms=tuple(forms),
    )


def collective_in(name: str) -> Collective:
    """The collective that a name speaks of: `all-reduce.3`, `HorovodAllreduce_grad`."""
    found = _COLLECTIVE.match(name)
    return collective_of(found[1]) if found else Collective.NONE


def _lane(line: ProfileLine) -> TraceLane:
    device = _DEVICE.search(line.process)
    on_device = device is not None and "host" not in line.process.lower()
    number = int(device[1] or 0) if device and on_device else NONE
    kind = LaneKind.STREAM if on_device else LaneKind.THREAD
    return TraceLane(f"{line.process} {line.name}".strip(), kind, number)


def _rows(
    row: int, line: ProfileLine, lane: TraceLane, pools: tuple[dict[str, int], dict[bytes, int]]
) -> Int64:
    """Columns name, category, lane, start, end, form."""
    names, forms = pools
    stated = line.stated or [b""] * len(line.names)
    form = [forms.setdefault(text, len(forms)) if text else NONE for text in stated]
    index = [names.setdefault(name, len(names)) for name in line.names]
    category = [_category(name, lane.kind) for name in line.names]
    where = np.full(len(index), row, np.int64)
    ends = np.maximum(line.end_ns, line.start_ns)
    return np.stack([index, category, where, line.start_ns, ends, form], axis=1).astype(np.int64)


def _category(name: str, kind: LaneKind) -> Category:
    if kind is LaneKind.STREAM:
        return Category.MEMCPY if _COPY.match(name) else Category.KERNEL
    return Category.CPU_OP


def _events(table: Int64) -> Events:
    absent = np.full(len(table), NONE, np.int64)
    return Events(
        name=table[:, 0].astype(np.int32),
        category=table[:, 1].astype(np.uint8),
        lane=table[:, 2].astype(np.int32),
        start_ns=table[:, 3].copy(),
        end_ns=table[:, 4].copy(),
        size_bytes=np.zeros(len(table), np.int64),
        correlation=absent,
        sequence=absent.copy(),
        record=absent.copy(),
        backward=np.zeros(len(table), np.bool_),
        form=table[:, 5].astype(np.int32),
    )


def _collectives(table: Int64, names: Sequence[str]) -> Collectives:
    op_of = [collective_in(name) for name in names]
    rows = [
        (row, NONE, NONE, op_of[name], 0, 0, NONE, False, NONE)
        for row, (name, category) in enumerate(table[:, :2].tolist())
        if op_of[name] is not Collective.NONE and category == Category.KERNEL
    ]
    return columns(Collectives, rows)


def _steps(lines: Sequence[ProfileLine]) -> Steps:
    """The profile's own row of steps, of the first device that has one."""
    for line in lines:
        numbers = [_NUMBER.search(name) for name in line.names]
        if line.name == "Steps" and all(numbers):
            found = np.array([int(n[0]) for n in numbers if n], np.int64)
            order = np.argsort(line.start_ns, kind="stable")
            return Steps(found[order], line.start_ns[order], line.end_ns[order])
    return columns(Steps, ())
