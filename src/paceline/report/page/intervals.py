"""A timeline of more ops than a file can hold, drawn as intervals: what is shorter than a pixel of
a wide screen is merged with what follows it on its lane, as `levels` merges it.

An interval stands where an op would, so that the page draws it the same way. Links to ops lead to
the intervals that hold them.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from paceline.graph import OpKind
from paceline.graph.graph import Int32, Int64
from paceline.graph.kinds import NONE
from paceline.replay import Timeline
from paceline.report.page.columns import Column
from paceline.report.page.contents import (
    Compared,
    Contents,
    FullestRank,
    Kind,
    LaneRow,
    PathRow,
    Sentence,
    Track,
)
from paceline.report.page.levels import WAITING, Spans, coarse, spans_of
from paceline.report.page.tracks import lanes_of, steps_of

MOST_OPS = 1_000_000
"""A file with more takes seconds to open, and more memory than a browser likes to give."""
MOST_INTERVALS = 2_000_000


@dataclass(frozen=True, eq=False)
class Intervals:
    """A track of intervals, and where each op of the timeline went."""

    timeline: Timeline
    track: Track
    lane: Int32  # by lane, then by start
    start_ns: Int64

    def of(self, ops: NDArray[np.int64]) -> Int64:
        """The interval that holds each op's work."""
        found = np.zeros(len(ops), np.int64)
        lane, start = self.timeline.graph.ops.lane[ops], self.timeline.start_ns[ops]
        for each in np.unique(lane).tolist():
            mine = lane == each
            borders = np.array([each, each + 1], self.lane.dtype)  # else all are converted
            first, last = np.searchsorted(self.lane, borders)
            within = np.searchsorted(self.start_ns[first:last], start[mine], side="right") - 1
            found[mine] = first + np.clip(within, 0, max(0, last - first - 1))
        return found


@dataclass(frozen=True, eq=False)
class Whole:
    """All that happens on a run's lanes."""

    ops: int
    spans: Spans
    lanes: tuple[LaneRow, ...]
    steps: tuple[tuple[int, int, int], ...]  # number, begin, end


def intervals(kind: Kind, title: str, timeline: Timeline, most: int = MOST_INTERVALS) -> Intervals:
    """As fine as `most` of them can be."""
    graph = timeline.graph
    whole = Whole(len(graph), spans_of(timeline), lanes_of(graph), steps_of(timeline))
    drawn = interval_track(kind, title, whole, most)
    lane, start = (np.asarray(drawn.columns[name].values) for name in ("lane", "start"))
    made = Intervals(timeline, drawn, lane, start)
    path = timeline.critical_path
    held = made.of(path.ops)
    weight = np.bincount(held, path.share_ns, len(lane)).astype(np.int64)
    shown = np.unique(held)
    lit = {"op": Column(shown), "share": Column(weight[shown])}
    return replace(made, track=replace(drawn, path=lit))


def interval_track(kind: Kind, title: str, whole: Whole, most: int = MOST_INTERVALS) -> Track:
    """The intervals alone, of which none is on a critical path."""
    end_ns = int(whole.spans.end_ns.max())
    columns = coarse(whole.spans, end_ns, most).columns
    lane, count = columns["level_lane"], columns["level_ops"]
    works = columns["level_kind"] != WAITING
    several, name = np.unique(count, return_inverse=True)
    return Track(
        kind=kind.value,
        title=f"{title}: {whole.ops:,} ops as {len(lane):,} intervals",
        lanes=whole.lanes,
        names=tuple(f"{n:,} op{'s' * (n != 1)}" for n in several.tolist()),
        groups=(),
        shapes={},
        span_ns=end_ns,
        steps=whole.steps,
        path={"op": Column(np.zeros(0, np.int64)), "share": Column(np.zeros(0, np.int64))},
        columns={
            "start": Column(columns["level_start"]),
            "took": Column(columns["level_lasts"]),
            "lane": Column(lane),
            "kind": Column(np.where(works, columns["level_kind"], OpKind.WAIT)),
            "name": Column(name),
            **_empty(len(lane)),
        },
    )


def _empty(count: int) -> dict[str, Column]:
    """What intervals do not have."""
    none, nothing = np.full(count, NONE, np.int32), np.zeros(count, np.int32)
    edges = np.zeros(0, np.int32)
    return {
        **dict.fromkeys(("layer", "tensor", "group", "instance", "slack"), Column(none)),
        **dict.fromkeys(
            ("waited", "phase", "bytes", "flops", "dtype", "collective", "step", "basis",
             "deps", "previous", "priority"),
            Column(nothing),
        ),
        **dict.fromkeys(("back", "link", "drain_op", "drain_lane"), Column(edges)),
    }  # fmt: skip


def relinked(contents: Contents, places: Intervals) -> Contents:
    """The same with every link to an op leading to its interval."""
    return replace(
        contents,
        headline=tuple(_sentence(each, places) for each in contents.headline),
        path_by_kind=_rows(contents.path_by_kind, places),
        path_by_layer=_rows(contents.path_by_layer, places),
        path_ops=_rows(contents.path_ops, places),
        memory=contents.memory and _memory(contents.memory, places),
        meetings=replace(
            contents.meetings,
            rows=_meetings(contents.meetings.rows, places),
        ),
        difference=contents.difference and _difference(contents.difference, places),
        analyses=tuple(
            replace(each, ops=tuple(_place(op, places) for op in each.ops))
            for each in contents.analyses
        ),
    )


def _sentence(sentence: Sentence, places: Intervals) -> Sentence:
    return tuple(replace(piece, op=_place(piece.op, places)) for piece in sentence)


def _rows(rows: tuple[PathRow, ...], places: Intervals) -> tuple[PathRow, ...]:
    return tuple(replace(row, op=_place(row.op, places)) for row in rows)


def _meetings(rows: Sequence[tuple[Any, ...]], places: Intervals) -> tuple[tuple[Any, ...], ...]:
    """All at once, for there are many; the op stands last."""
    held = places.of(np.array([row[-1] for row in rows], np.int64)).tolist()
    return tuple((*row[:-1], place) for row, place in zip(rows, held))


def _difference(found: Compared, places: Intervals) -> Compared:
    mine = Kind.RECORDED.value
    causes = (
        replace(each, op=_place(each.op, places)) if each.track == mine else each
        for each in found.causes
    )
    return replace(found, causes=tuple(causes))


def _memory(memory: FullestRank, places: Intervals) -> FullestRank:
    place = _place(memory.op, places)
    assert place is not None
    return replace(memory, op=place)


def _place(op: int | None, places: Intervals) -> int | None:
    return None if op is None else int(places.of(np.array([op]))[0])
