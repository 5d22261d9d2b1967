"""One rank's findings -> its block of the graph: ops in order of time, and what they wait for.

Ids, lanes and names in a block count from 0; `stack` shifts them when the ranks are joined.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np

from paceline.graph import NONE, DepKind
from paceline.graph.work import Recorded
from paceline.record.sidecar import Cost
from paceline.trace.blockrows import (
    BlockRows,
    Names,
    border_rows,
    latency_rows,
    own_rows,
    piece_rows,
)
from paceline.trace.findings import Findings, stacked
from paceline.trace.likeness import piece_likeness, work_likeness
from paceline.trace.ownops import OwnOps, own_ops
from paceline.trace.pieces import Pieces, pieces_of
from paceline.trace.shapes import worked_of
from paceline.trace.trace import Int64, Steps, select
from paceline.trace.view import RankView, Whole

_ASKED_FOR: Final = (DepKind.LAUNCH, DepKind.GRADIENT)


@dataclass(frozen=True, eq=False)
class RankBlock:
    """One rank's part of the graph."""

    view: RankView
    rows: BlockRows
    names: tuple[str, ...]
    deps: Int64  # columns: op, src, kind, inferred
    drains: Int64  # columns: op, lane
    memory: Int64  # columns: op, device, delta_bytes, category
    op_of_event: Int64  # events that are ops of their own; NONE for others and for those left out
    alike: Int64  # for each op a number that is equal for like ops of other steps; NONE for none
    notes: tuple[str, ...]
    works: tuple[Recorded, ...]
    main_lane: int  # the thread of the training loop, or NONE


def assemble(view: RankView, found: Findings, steps: Steps, origin_ns: int) -> RankBlock:
    """`origin_ns`: when the first of all ranks begins its first step."""
    pieces = pieces_of(view, found, steps, recording_cost(view))
    own = own_ops(view, found.links, origin_ns)
    names = Names(view.trace.names)
    worked = worked_of(view)
    threads = piece_rows(view, pieces, steps, names, worked)
    work = own_rows(view, own, steps, names, worked)
    parts = [
        threads,
        work,
        latency_rows(view, own, work, names),
        border_rows(view, pieces, steps, origin_ns, names),
    ]
    rows, place = _ordered(parts)
    spots = _Spots(view, pieces, own, place)
    return RankBlock(
        view,
        rows,
        names.all(),
        _deps(found, spots),
        _drains(found, spots),
        _memory(view, spots),
        spots.op_of_event,
        _alike(
            len(rows),
            place,
            [piece_likeness(view, pieces, steps), *work_likeness(view, own, steps)],
        ),
        (*found.notes, *worked.notes),
        worked.recorded,
        view.main_lane,
    )


def recording_cost(view: RankView) -> Cost:
    """What recording cost this rank, where the recorder measured it."""
    costs = view.sidecar.of(Cost) if view.sidecar else []
    return costs[-1] if costs else Cost(op_ns=0.0)


def _ordered(parts: list[BlockRows]) -> tuple[BlockRows, list[Int64]]:
    """All rows within steps in order of time, and for each part where its rows went (or NONE)."""
    rows = stacked(parts)
    kept = np.flatnonzero(rows.step != NONE)
    kept = kept[
        np.lexsort((rows.rank_in_lane[kept], rows.event[kept] != NONE, rows.start_ns[kept]))
    ]
    place = np.full(len(rows), NONE, np.int64)
    place[kept] = np.arange(len(kept))
    borders = np.cumsum([len(part) for part in parts])[:-1]
    return select(rows, kept), np.split(place, borders)


def _alike(count: int, place: list[Int64], parts: list[Int64]) -> Int64:
    """The parts' numbers where their rows went."""
    alike = np.full(count, NONE, np.int64)
    for went, numbers in zip(place, parts):
        alike[went[went != NONE]] = numbers[went != NONE]
    return alike


class _Spots:
    """Where moments and events of the trace went in the block."""

    def __init__(self, view: RankView, pieces: Pieces, own: OwnOps, place: list[Int64]) -> None:
        self._view, self._pieces = view, pieces
        self._starts = view.key(pieces.lane, pieces.start_ns)
        self._ends = view.key(pieces.lane, pieces.end_ns)
        self._piece_op, own_op, latency_op = place[:3]
        self.op_of_event = np.full(len(view.trace.events), NONE, np.int64)
        self.op_of_event[own.event] = own_op
        self._first_of_event = self.op_of_event.copy()
        delayed = own.event[own.gap_ns > 0]
        self._first_of_event[delayed] = latency_op

    def before(self, lane: Whole, at_ns: Int64, event: Whole) -> Int64:
        """The op of the event, or the last one on the lane that has ended by the moment."""
        found = np.searchsorted(self._ends, self._view.key(lane, at_ns), "right") - 1
        return np.where(event == NONE, self._piece(found, lane), self.op_of_event[event])

    def after(self, lane: Whole, at_ns: Int64, event: Whole) -> Int64:
        """The first op of the event, or of the lane from the moment on: the wait that ends then,
        if there is one."""
        key = self._view.key(lane, at_ns)
        found = np.searchsorted(self._starts, key, "left")
        last = np.maximum(found - 1, 0)
        waited = (found > 0) & self._pieces.wait[last] & (self._ends[last] == key)
        found = np.where(waited, found - 1, found)
        return np.where(event == NONE, self._piece(found, lane), self._first_of_event[event])

    def during(self, lane: Whole, at_ns: Int64) -> Int64:
        """The piece of the lane at the moment."""
        found = np.searchsorted(self._starts, self._view.key(lane, at_ns), "right") - 1
        return self._piece(found, lane)

    def _piece(self, row: Int64, lane: Whole) -> Int64:
        count = len(self._pieces)
        if not count:
            return np.full(len(row), NONE, np.int64)
        safe = np.clip(row, 0, count - 1)
        fits = (row >= 0) & (row < count) & (self._pieces.lane[safe] == lane)
        return np.where(fits, self._piece_op[safe], NONE)


def _deps(found: Findings, spots: _Spots) -> Int64:
    """Links between ops that are in the graph; none from an op to itself or to a later one.

    A launch, and a gradient, is linked to the latency before its work and to the work itself: a
    drain asks for the one, changes to buckets for the other.
    """
    links = found.links
    src = spots.before(links.src_lane, links.src_ns, links.src_event)
    op = spots.after(links.dst_lane, links.dst_ns, links.dst_event)
    table = np.stack([op, src, links.kind.astype(np.int64), links.inferred.astype(np.int64)])
    asked = np.isin(links.kind, _ASKED_FOR) & (links.dst_event != NONE)
    itself = table[:, asked]
    itself[0] = spots.op_of_event[links.dst_event[asked]]
    table = np.concatenate([table, itself], axis=1)
    op, src = table[:2]
    return table[:, (src != NONE) & (op != NONE) & (src != op)]


def _drains(found: Findings, spots: _Spots) -> Int64:
    drains = found.drains
    op = spots.after(drains.lane, drains.at_ns, np.full(len(drains), NONE, np.int64))
    table = np.stack([op, drains.stream.astype(np.int64)])[:, op != NONE]
    return np.unique(table, axis=1)


def _memory(view: RankView, spots: _Spots) -> Int64:
    """Allocator events on the op during which they happened."""
    marks = view.trace.allocations
    op = spots.during(marks.lane, marks.at_ns)
    device, category = marks.device.astype(np.int64), marks.category.astype(np.int64)
    table = np.stack([op, device, marks.delta_bytes, category])[:, op != NONE]
    return table[:, np.argsort(table[0], kind="stable")]
