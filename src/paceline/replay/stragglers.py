"""Ranks for which others waited, and what made them late: what each did longer than its partners
did on average, between its meeting before and its arrival at the one where others waited longest.

Partners are looked up many at a time, for of a thousand ranks each may have been late once.
"""

from collections import defaultdict
from dataclasses import dataclass
from typing import Literal

import numpy as np

from paceline.graph import NONE, OpKind
from paceline.graph.copying import ragged
from paceline.graph.graph import Bool, Int64
from paceline.replay.communication import Meeting
from paceline.replay.timeline import Timeline


@dataclass(frozen=True)
class Straggler:
    """A rank for which others waited."""

    rank: int
    times: int  # meetings to which it came last
    caused_ns: int  # what all others waited in them
    op: str  # what it did longest beyond the others before it came, in the worst meeting
    excess_ns: int  # by how much


def stragglers(timeline: Timeline, found: tuple[Meeting, ...]) -> tuple[Straggler, ...]:
    """Ranks by what they made others wait."""
    late: dict[int, list[Meeting]] = defaultdict(list)
    for meeting in found:
        if meeting.waiting_ns:
            late[meeting.late_rank].append(meeting)
    if not late:
        return ()
    spent = _Spent.of(timeline)
    rows = [_straggler(rank, some, spent) for rank, some in late.items()]
    return tuple(sorted(rows, key=lambda row: -row.caused_ns))


def _straggler(rank: int, late: list[Meeting], spent: "_Spent") -> Straggler:
    worst = max(late, key=lambda meeting: meeting.waiting_ns)
    op, excess = spent.beyond_others(rank, worst)
    return Straggler(rank, len(late), sum(m.waiting_ns for m in late), op, excess)


@dataclass(frozen=True, eq=False)
class _Spent:
    """What each rank did and when."""

    timeline: Timeline
    met: "_ByEnd"
    work: "_ByEnd"

    @staticmethod
    def of(timeline: Timeline) -> "_Spent":
        ops = timeline.graph.ops
        met = ops.instance != NONE
        work = ~met & (ops.kind != OpKind.WAIT)
        return _Spent(timeline, _ByEnd.of(timeline, met), _ByEnd.of(timeline, work))

    def beyond_others(self, rank: int, meeting: Meeting) -> tuple[str, int]:
        """By name of the op: what the rank did longest beyond its partners' mean before it came."""
        timeline, ops = self.timeline, self.timeline.graph.ops
        members = timeline.members_of(meeting.instance)
        rows, member = self._before(members)
        mine = ops.rank[members] == rank
        others, own = int((~mine).sum()), mine[member]
        if not others or not own.any():
            return "", 0
        lasted = timeline.end_ns[rows] - timeline.start_ns[rows]
        names, kind = np.unique(ops.name[rows], return_inverse=True)
        by_name = [
            np.bincount(kind[of], lasted[of], len(names)).astype(np.int64) for of in (own, ~own)
        ]
        excess = by_name[0] - by_name[1] // others
        excess[np.bincount(kind[own], minlength=len(names)) == 0] = np.iinfo(np.int64).min
        most = int(np.argmax(excess))
        return timeline.graph.text(int(names[most])), max(int(excess[most]), 0)

    def _before(self, members: Int64) -> tuple[Int64, Int64]:
        """The work of each member between its meeting before and its arrival; and by row of it,
        which member did it."""
        timeline = self.timeline
        rank = timeline.graph.ops.rank[members].astype(np.int64)
        until = timeline.ready_ns[members]
        since = self.met.last_end_ns(rank, until)
        first, last = self.work.place(rank, since, "left"), self.work.place(rank, until, "right")
        rows = self.work.op[ragged(first, last - first)]
        member = np.repeat(np.arange(len(members)), last - first)
        inside = timeline.start_ns[rows] >= since[member]
        return rows[inside], member[inside]


@dataclass(frozen=True, eq=False)
class _ByEnd:
    """Some of the ops, by rank and then by when they end."""

    op: Int64
    key: Int64  # rank * span + end
    span: int  # more than the last end

    @staticmethod
    def of(timeline: Timeline, chosen: Bool) -> "_ByEnd":
        rows, span = np.flatnonzero(chosen), int(timeline.end_ns.max(initial=0)) + 1
        key = timeline.graph.ops.rank[rows].astype(np.int64) * span + timeline.end_ns[rows]
        order = np.argsort(key)
        return _ByEnd(rows[order], key[order], span)

    def place(self, rank: Int64, at_ns: Int64, side: Literal["left", "right"]) -> Int64:
        """Where a row of that rank that ends then would stand, before or behind its likes."""
        return np.searchsorted(self.key, rank * self.span + at_ns, side)

    def last_end_ns(self, rank: Int64, until_ns: Int64) -> Int64:
        """When the rank's last of these up to then ends; 0 where there is none."""
        first = self.place(rank, np.zeros_like(until_ns), "left")
        behind = self.place(rank, until_ns, "right")
        last = self.key[np.maximum(behind - 1, 0)] - rank * self.span
        return np.where(behind > first, last, 0)
