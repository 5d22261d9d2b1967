"""A timeline of more ops than a file can hold, drawn as intervals: what is shorter than a pixel of
a wide screen is merged with what follows it on its lane, as `levels` merges it.

An interval stands where an op would, so that the page draws it the same way. Links to ops lead to
the intervals that hold them.
"""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from paceline.graph import OpKind
from paceline.graph.graph import Int32, Int64
from paceline.graph.kinds import NONE
from paceline.replay import Timeline
from paceline.report.page.columns import Column
from paceline.report.page.contents import Contents, Kind, Memory, PathRow, Sentence, Track
from paceline.report.page.levels import WAITING, coarse, spans_of
from paceline.report.page.tracks import lanes_of, steps_of

MOST_OPS = 1_000_000
"""A file with more takes seconds to open, and more memory than a browser likes to give."""
MOST_INTERVALS = 300_000


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
            first, last = np.searchsorted(self.lane, [each, each + 1])
            within = np.searchsorted(self.start_ns[first:last], start[mine], side="right") - 1
            found[mine] = first + np.clip(within, 0, max(0, last - first - 1))
        return found


def intervals(kind: Kind, title: str, timeline: Timeline, most: int = MOST_INTERVALS) -> Intervals:
    """As fine as `most` of them can be."""
    columns = coarse(spans_of(timeline), timeline.step_ns, most).columns
    lane, start, count = columns["level_lane"], columns["level_start"], columns["level_ops"]
    works = columns["level_kind"] != WAITING
    kinds = np.where(works, columns["level_kind"], OpKind.WAIT)
    several, name = np.unique(count, return_inverse=True)
    track = Track(
        kind=kind.value,
        title=f"{title}: {len(timeline.graph):,} ops as {len(lane):,} intervals",
        lanes=lanes_of(timeline.graph),
        names=tuple(f"{n:,} op{'s' * (n != 1)}" for n in several.tolist()),
        groups=(),
        shapes={},
        span_ns=timeline.step_ns,
        steps=steps_of(timeline),
        path={"op": Column(np.zeros(0, np.int64)), "share": Column(np.zeros(0, np.int64))},
        columns={
            "start": Column(start),
            "took": Column(columns["level_lasts"]),
            "lane": Column(lane),
            "kind": Column(kinds),
            "name": Column(name),
            **_empty(len(lane)),
        },
    )
    made = Intervals(timeline, track, lane, start)
    path = timeline.critical_path
    shown = np.unique(made.of(path.ops))
    weight = np.bincount(made.of(path.ops), path.share_ns, len(lane)).astype(np.int64)
    return replace(
        made, track=replace(track, path={"op": Column(shown), "share": Column(weight[shown])})
    )


def _empty(count: int) -> dict[str, Column]:
    """What intervals do not have."""
    none, nothing = np.full(count, NONE, np.int32), np.zeros(count, np.int32)
    edges = np.zeros(0, np.int32)
    return {
        **dict.fromkeys(("layer", "tensor", "group", "instance"), Column(none)),
        **dict.fromkeys(
            ("waited", "slack", "phase", "bytes", "flops", "dtype", "collective", "step", "basis",
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
            rows=tuple((*row[:-1], _place(row[-1], places)) for row in contents.meetings.rows),
        ),
    )


def _sentence(sentence: Sentence, places: Intervals) -> Sentence:
    return tuple(replace(piece, op=_place(piece.op, places)) for piece in sentence)


def _rows(rows: tuple[PathRow, ...], places: Intervals) -> tuple[PathRow, ...]:
    return tuple(replace(row, op=_place(row.op, places)) for row in rows)


def _memory(memory: Memory, places: Intervals) -> Memory:
    place = _place(memory.op, places)
    assert place is not None
    return replace(memory, op=place)


def _place(op: int | None, places: Intervals) -> int | None:
    return None if op is None else int(places.of(np.array([op]))[0])
