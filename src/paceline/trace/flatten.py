"""Nested ranges of a thread -> its timeline of self time: at each moment the innermost range.

Cuts are moments at which a segment must end although no range does: other lanes hang on them.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from paceline.engine import native

Int64 = NDArray[np.int64]
Int32 = NDArray[np.int32]

GAP: Final = -1
"""Owner of a segment in which the thread is in none of its recorded ranges."""


@dataclass(frozen=True, eq=False)
class Segments:
    """Consecutive pieces of threads: contiguous within a lane, in order of (lane, time)."""

    owner: Int32  # row of the innermost range; GAP
    lane: Int32
    start_ns: Int64
    end_ns: Int64
    after_cut: NDArray[np.bool_]  # starts at a cut: may not be joined to the piece before
    borders: Int32  # starts and ends of ranges that touch this piece from inside its owner

    def __len__(self) -> int:
        return len(self.owner)


def flatten(
    lane: Int32, start_ns: Int64, end_ns: Int64, cut_lane: Int32, cut_ns: Int64
) -> Segments:
    """Segments of ranges sorted by (lane, start, longest first); cuts sorted by (lane, time).

    A range that outlasts the one it began in is clipped to it. Every range without a range inside
    yields a segment, be it empty; empty self time of the others is dropped.
    """
    core = native()
    run = core.flatten if core is not None else plain_flatten
    owner, on, start, end, after_cut, borders = run(lane, start_ns, end_ns, cut_lane, cut_ns)
    return Segments(owner, on, start, end, after_cut.astype(np.bool_), borders)


Columns = tuple[Int32, Int32, Int64, Int64, NDArray[np.uint8], Int32]


def plain_flatten(
    lane: Int32, start_ns: Int64, end_ns: Int64, cut_lane: Int32, cut_ns: Int64
) -> Columns:
    """The specification of the native `flatten`."""
    rows: list[tuple[int, int, int, int, int, int]] = []
    for number in np.unique(lane):
        first, last = np.searchsorted(lane, [number, number + 1])
        cuts = cut_ns[slice(*np.searchsorted(cut_lane, [number, number + 1]))].tolist()
        walk = _Walk(int(number), cuts)
        for row in range(first, last):
            walk.enter(row, int(start_ns[row]), int(end_ns[row]))
        walk.leave_until(None)
        rows += walk.rows
    table = np.array(rows, np.int64).reshape(-1, 6).T
    owner, on, start, end, after_cut, borders = table
    return (
        owner.astype(np.int32),
        on.astype(np.int32),
        start.copy(),
        end.copy(),
        after_cut.astype(np.uint8),
        borders.astype(np.int32),
    )


class _Walk:
    """One thread, from left to right: the stack of open ranges and the time reached."""

    def __init__(self, lane: int, cuts: list[int]) -> None:
        self.rows: list[tuple[int, int, int, int, int, int]] = []
        self._lane, self._cuts, self._next_cut = lane, cuts, 0
        self._open: list[tuple[int, int]] = []  # (row, end)
        self._at: int | None = None
        self._borders = 0  # of the piece that is being collected
        self._leaf = False  # the innermost range has had no range inside so far

    def enter(self, row: int, start: int, end: int) -> None:
        self.leave_until(start)
        if self._at is None:
            self._at = start
        self._advance(start, border=True)
        limit = self._open[-1][1] if self._open else end
        self._open.append((row, max(start, min(end, limit))))
        self._leaf, self._borders = True, 0

    def leave_until(self, moment: int | None) -> None:
        """Close every range that ends by the moment (all of them for None)."""
        while self._open and (moment is None or self._open[-1][1] <= moment):
            end = self._open[-1][1]
            self._advance(end, border=False, keep=self._leaf)
            self._open.pop()
            self._leaf, self._borders = False, 1

    def _advance(self, moment: int, *, border: bool, keep: bool = False) -> None:
        """Emit the innermost range's self time up to the moment, cut where asked."""
        owner = self._open[-1][0] if self._open else GAP
        assert self._at is not None
        borders = self._borders + border
        while self._next_cut < len(self._cuts) and self._cuts[self._next_cut] < moment:
            cut = self._cuts[self._next_cut]
            if cut > self._at:
                self._emit(owner, cut, borders)
                borders = 0
                self._at = cut
            self._next_cut += 1
        if moment > self._at or keep:
            self._emit(owner, moment, borders)
        self._at = max(self._at, moment)

    def _emit(self, owner: int, end: int, borders: int) -> None:
        assert self._at is not None
        begun = self._cuts[: self._next_cut + 1]
        after_cut = bool(begun) and self._at in begun[-2:]
        self.rows.append((owner, self._lane, self._at, max(end, self._at), after_cut, borders))
