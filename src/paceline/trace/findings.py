"""`Findings`: what a dependency rule concluded from one rank's trace, by moments and by events.

A rule (`rules/`, one a file) knows no graph: it speaks of moments on host threads and of rows of
device work. `assemble` cuts the threads at these moments and turns the links into dependencies.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field, fields
from typing import Any, TypeVar

import numpy as np

from paceline.graph import NONE, DepKind
from paceline.trace.trace import Bool, Int32, Int64, UInt8, columns, empty

T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class Links:
    """One row a dependency. An end is an event that is an op of its own (device work, a transfer),
    or else a moment on a host lane: the last piece that ended by then, the first that starts then.
    """

    src_event: Int32  # NONE: a moment
    src_lane: Int32
    src_ns: Int64
    dst_event: Int32
    dst_lane: Int32
    dst_ns: Int64
    kind: UInt8  # DepKind
    inferred: Bool

    def __len__(self) -> int:
        return len(self.kind)


@dataclass(frozen=True, eq=False)
class Idles:
    """Stretches of a host lane in which it waited: they cost no time of their own."""

    lane: Int32
    start_ns: Int64
    end_ns: Int64
    wait: Bool  # a wait for other work; False: time that is no part of the job (the recorder's own)

    def __len__(self) -> int:
        return len(self.lane)


@dataclass(frozen=True, eq=False)
class StreamDrains:
    """At a moment the host continues only once a stream has finished all it was given."""

    lane: Int32
    at_ns: Int64
    stream: Int32  # lane

    def __len__(self) -> int:
        return len(self.lane)


@dataclass(frozen=True)
class Findings:
    """What one rule, or all of them, concluded."""

    links: Links = field(default_factory=lambda: empty(Links))
    idles: Idles = field(default_factory=lambda: empty(Idles))
    drains: StreamDrains = field(default_factory=lambda: empty(StreamDrains))
    notes: tuple[str, ...] = ()


def joined(findings: Iterable[Findings]) -> Findings:
    """All rules' findings as one."""
    parts = list(findings)
    return Findings(
        stacked([part.links for part in parts]),
        stacked([part.idles for part in parts]),
        stacked([part.drains for part in parts]),
        tuple(note for part in parts for note in part.notes),
    )


def link_rows(count: int, kind: DepKind, *, inferred: bool = False, **given: object) -> Links:
    """Links of one kind from whole columns; the ends that are not given are absent."""
    absent = np.full(count, NONE, np.int64)
    column = {
        item.name: np.asarray(given.get(item.name, absent))
        for item in fields(Links)
        if item.name not in {"kind", "inferred"}
    }
    return Links(
        src_event=column["src_event"].astype(np.int32),
        src_lane=column["src_lane"].astype(np.int32),
        src_ns=column["src_ns"].astype(np.int64),
        dst_event=column["dst_event"].astype(np.int32),
        dst_lane=column["dst_lane"].astype(np.int32),
        dst_ns=column["dst_ns"].astype(np.int64),
        kind=np.full(count, kind, np.uint8),
        inferred=np.full(count, inferred, np.bool_),
    )


def idle_rows(rows: Iterable[tuple[int, int, int, bool]]) -> Idles:
    return columns(Idles, list(rows))


def stacked(parts: list[T]) -> T:
    """Tables of one type (at least one) below each other."""
    first: Any = parts[0]
    names = [item.name for item in fields(first)]
    return type(parts[0])(*(np.concatenate([getattr(p, n) for p in parts]) for n in names))
