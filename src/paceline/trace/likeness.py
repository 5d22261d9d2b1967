"""Which ops of a rank are alike: the same work in another step.

Steady steps run the same ranges in the same order on each thread and stream. Where two steps did,
an op is known by how many ranges had begun and ended on its lane since its step began. Steps of
another shape are alike among themselves only.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from paceline.graph import NONE
from paceline.trace.blockrows import step_at
from paceline.trace.ownops import OwnOps
from paceline.trace.pieces import Pieces
from paceline.trace.trace import Bool, Int32, Int64, Steps
from paceline.trace.view import RankView, Whole

UInt64 = NDArray[np.uint64]
_PIECES_AT_ONE_BORDER: Final = 16
_LATENCY, _WORK, _PIECE = 0, 1, 2


def piece_likeness(view: RankView, pieces: Pieces, steps: Steps) -> Int64:
    """A number for each piece of a host lane, equal for like ones; NONE outside of steps."""
    events, rows = view.trace.events, np.flatnonzero(view.is_host)
    shapes = _Shapes.of(events.lane[rows], step_at(steps, events.start_ns[rows]), events.name[rows])
    step = step_at(steps, pieces.start_ns)
    place = _borders_passed(view, rows, pieces, steps)
    again = _runs([pieces.lane, step, place])
    place = place * _PIECES_AT_ONE_BORDER + np.minimum(again, _PIECES_AT_ONE_BORDER - 1)
    return _numbers(shapes.at(pieces.lane, step), place, _PIECE, step != NONE)


def work_likeness(view: RankView, own: OwnOps, steps: Steps) -> tuple[Int64, Int64]:
    """The same for device work and transfers, and for the latencies before them."""
    events, step = view.trace.events, step_at(steps, own.caused_ns)
    lane = events.lane[own.event]
    shapes = _Shapes.of(lane, step, events.name[own.event])
    order = np.lexsort((own.start_ns, step, lane))
    place = np.empty(len(order), np.int64)
    place[order] = _runs([lane[order], step[order]])
    shape, late = shapes.at(lane, step), own.gap_ns > 0
    work = _numbers(shape, place, _WORK, step != NONE)
    return work, _numbers(shape[late], place[late], _LATENCY, step[late] != NONE)


@dataclass(frozen=True, eq=False)
class _Shapes:
    """A number for each (lane, step), equal where the same ranges began in the same order."""

    key: Int64  # ascending
    shape: UInt64

    @staticmethod
    def of(lane: Int32, step: Int32, name: Int32) -> "_Shapes":
        key = _lane_and_step(lane, step)
        order = np.argsort(key, kind="stable")
        key, place = key[order], _runs([key[order]])
        first = np.flatnonzero(place == 0)
        mixed = _mixed(name[order].astype(np.uint64) << np.uint64(32) | place.astype(np.uint64))
        return _Shapes(key[first], np.add.reduceat(mixed, first) if len(first) else mixed)

    def at(self, lane: Int32, step: Int32) -> UInt64:
        key = _lane_and_step(lane, step)
        if not len(self.key):
            return np.zeros(len(key), np.uint64)
        at = np.minimum(np.searchsorted(self.key, key), len(self.key) - 1)
        return np.where(self.key[at] == key, self.shape[at], np.uint64(0))


def _lane_and_step(lane: Int32, step: Int32) -> Int64:
    return lane.astype(np.int64) << 32 | (step.astype(np.int64) + 1)


def _borders_passed(view: RankView, rows: NDArray[np.intp], pieces: Pieces, steps: Steps) -> Int64:
    """How many ranges began or ended on a piece's lane from its step's begin to its own."""
    events = view.trace.events
    starts = np.sort(view.key(events.lane[rows], events.start_ns[rows]))
    ends = np.sort(view.key(events.lane[rows], events.end_ns[rows]))
    row = np.searchsorted(steps.start_ns, pieces.start_ns, "right") - 1
    begin = view.key(pieces.lane, steps.start_ns[np.maximum(row, 0)])
    until = view.key(pieces.lane, pieces.start_ns)
    began = np.searchsorted(starts, until, "right") - np.searchsorted(starts, begin, "left")
    ended = np.searchsorted(ends, until, "right") - np.searchsorted(ends, begin, "right")
    passed: Int64 = began + ended
    return passed


def _runs(columns: list[Whole]) -> Int64:
    """For each row how many rows before it, without a break, are equal to it."""
    count = len(columns[0])
    new = np.zeros(count, np.bool_)
    new[:1] = True
    for column in columns:
        new[1:] |= column[1:] != column[:-1]
    at = np.arange(count)
    since: Int64 = at - np.maximum.accumulate(np.where(new, at, 0))
    return since


def _numbers(shape: UInt64, place: Int64, what: int, known: Bool) -> Int64:
    code = place.astype(np.uint64) * np.uint64(4) + np.uint64(what)
    number = (_mixed(shape ^ _mixed(code)) >> np.uint64(1)).astype(np.int64)
    return np.where(known, number, NONE)


def _mixed(value: UInt64) -> UInt64:
    """The finaliser of splitmix64: every bit changes about half the bits of the result."""
    value = value + np.uint64(0x9E3779B97F4A7C15)
    value = (value ^ (value >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    value = (value ^ (value >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    mixed: UInt64 = value ^ (value >> np.uint64(31))
    return mixed
