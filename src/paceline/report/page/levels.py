"""Levels of detail: what to draw of a timeline for a window of time and a number of pixels.

The page's engine makes them of the ops that a file carries. Where these are too many for a file,
it carries `coarse` intervals in their place, of which the page makes coarser ones by the same rule:
what is shorter than a pixel is merged with what follows it within a pixel. (native/levels.cpp)
"""

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from paceline.engine import native
from paceline.graph.graph import Int32, Int64, UInt8
from paceline.graph.kinds import NONE
from paceline.replay import Timeline
from paceline.report.page.pack import PageData

WAITING: Final = 15
"""The kind of what waits for partners; ops have the numbers of `OpKind`."""

_KINDS: Final = 16


@dataclass(frozen=True, eq=False)
class Spans:
    """What happens on lanes, no two of a lane at once."""

    lanes: int  # how many there are
    lane: Int32
    kind: UInt8
    start_ns: Int64
    end_ns: Int64


@dataclass(frozen=True)
class Window:
    """What is looked at."""

    from_ns: int
    to_ns: int
    pixels: int

    @property
    def pixel_ns(self) -> int:
        return max(1, (self.to_ns - self.from_ns) // max(1, self.pixels))


@dataclass(frozen=True, eq=False)
class Drawn:
    """Intervals by lane and time; `span` is the only one of an interval, or NONE."""

    lane: Int32
    kind: UInt8  # that of most of its work
    start_ns: Int64
    end_ns: Int64
    busy_ns: Int64
    ops: Int32  # how many spans it stands for
    span: Int32

    def __len__(self) -> int:
        return len(self.lane)


def spans_of(timeline: Timeline) -> Spans:
    """Each op's work, and what it waited for before it, where it did."""
    ops = timeline.graph.ops
    ready, start, end = timeline.ready_ns, timeline.start_ns, timeline.end_ns
    waits, works = np.flatnonzero(start > ready), np.flatnonzero(end > start)
    kinds = (np.full(len(waits), WAITING, np.uint8), ops.kind[works])
    return Spans(
        len(timeline.graph.lanes),
        np.concatenate([ops.lane[waits], ops.lane[works]]),
        np.concatenate(kinds),
        np.concatenate([ready[waits], start[works]]),
        np.concatenate([start[waits], end[works]]),
    )


def drawn(spans: Spans, window: Window, *, reference: bool = False) -> Drawn:
    """What of all lanes lies in the window."""
    core = None if reference else native()
    return _drawn(spans, window) if core is None else _natively(_levels(core, spans), spans, window)


def coarse(spans: Spans, step_ns: int, most: int) -> PageData:
    """Intervals in place of ops, as fine as `most` of them can be: the page's
    `level_...` columns.

    `level_lasts` is how long each interval is, and `level_idle` how much of that no work fills.
    """
    core = native()
    levels = None if core is None else _levels(core, spans)
    found, pixels = None, _surely_few(spans, step_ns, most)
    while True:  # from coarse to fine, so that no try makes many more than are wanted
        window = Window(0, step_ns, pixels)
        finer = _drawn(spans, window) if levels is None else _natively(levels, spans, window)
        if found is not None and len(finer) > most:
            return _part(found, pixels // 2)
        found = finer
        if window.pixel_ns == 1 or len(found) == len(spans.lane):
            return _part(found, pixels)
        pixels *= 2


def _surely_few(spans: Spans, step_ns: int, most: int) -> int:
    """Pixels of which no more than `most` intervals can come. Where there are more spans, a power
    of two: two intervals that follow one another on a lane last a pixel together, whose length is
    rounded down."""
    if len(spans.lane) <= most:
        return max(1, step_ns)
    fit = max(1, (most // max(1, spans.lanes) - 1) // 4)
    return 1 << fit.bit_length() - 1


def _levels(core: Any, spans: Spans) -> Any:
    columns = (spans.lane, spans.kind, spans.start_ns, spans.end_ns)
    return core.Levels(spans.lanes, *map(np.ascontiguousarray, columns))


def _natively(levels: Any, spans: Spans, window: Window) -> Drawn:
    lanes = np.arange(spans.lanes, dtype=np.int32)
    return Drawn(*levels.draw(lanes, window.from_ns, window.to_ns, window.pixels))


def _part(found: Drawn, pixels: int) -> PageData:
    lasts = found.end_ns - found.start_ns
    columns: dict[str, NDArray[Any]] = {
        "level_lane": found.lane,
        "level_kind": found.kind,
        "level_start": found.start_ns,
        "level_lasts": lasts,
        "level_idle": lasts - found.busy_ns,
        "level_ops": found.ops,
    }
    return PageData(columns, {"level_pixels": pixels})


def _drawn(spans: Spans, window: Window) -> Drawn:
    """The same in plain Python: the definition."""
    rows: list[list[int]] = []
    inside = (spans.end_ns > window.from_ns) & (spans.start_ns < window.to_ns)
    some = np.flatnonzero(inside & (spans.end_ns > spans.start_ns))
    some = some[np.lexsort((spans.start_ns[some], spans.lane[some]))]
    columns = (spans.lane, spans.kind, spans.start_ns, spans.end_ns)
    under_way: _Merged | None = None
    for span, lane, kind, start, end in zip(some.tolist(), *(c[some].tolist() for c in columns)):
        small = end - start < window.pixel_ns
        if under_way is None or not under_way.goes_on(lane, start, end, small, window.pixel_ns):
            if under_way is not None:
                rows.append(under_way.row())
            under_way = _Merged(lane, start, span, small)
        under_way.take(kind, start, end)
    if under_way is not None:
        rows.append(under_way.row())
    table = np.array(rows, np.int64).reshape(-1, 7)
    types = (np.int32, np.uint8, np.int64, np.int64, np.int64, np.int32, np.int32)
    return Drawn(*(table[:, at].astype(each) for at, each in enumerate(types)))


class _Merged:
    """Spans of one lane that follow one another."""

    def __init__(self, lane: int, start: int, span: int, small: bool) -> None:
        self.lane, self.start, self.end, self.span, self.small = lane, start, start, span, small
        self.ops, self.of_kind = 0, [0] * _KINDS

    def goes_on(self, lane: int, start: int, end: int, small: bool, pixel_ns: int) -> bool:
        near = start - self.end < pixel_ns and end - self.start <= pixel_ns
        return lane == self.lane and small and self.small and near

    def take(self, kind: int, start: int, end: int) -> None:
        self.ops, self.end = self.ops + 1, end
        self.of_kind[kind] += end - start

    def row(self) -> list[int]:
        kind = max(range(_KINDS), key=lambda each: self.of_kind[each])
        span = self.span if self.ops == 1 else NONE
        busy = sum(self.of_kind)
        return [self.lane, kind, self.start, self.end, busy, self.ops, span]
