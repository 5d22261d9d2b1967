"""Communication on a timeline: each collective's skew and transfer, each group's waiting, and the
ranks that came late with what made them late."""

from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np

from paceline.graph import NONE, Collective, Graph, OpKind
from paceline.graph.graph import Int64
from paceline.replay.timeline import Timeline


@dataclass(frozen=True)
class Meeting:
    """One collective or message: all members' ops of one instance."""

    instance: int
    name: str
    collective: str
    group: str
    step: int
    size_bytes: int
    ranks: tuple[int, ...]
    skew_ns: int  # latest minus earliest arrival
    transfer_ns: int  # least duration over the members
    waiting_ns: int  # sum over the members, from arrival to the last one's
    bus_bytes_per_s: float  # what each member's link carried; 0 unknown
    late_rank: int  # who came last


@dataclass(frozen=True)
class GroupShare:
    """What a group's communication cost its members, summed over them."""

    group: str
    ranks: int
    meetings: int
    size_bytes: int
    waiting_ns: int
    transfer_ns: int


@dataclass(frozen=True)
class Straggler:
    """A rank for which others waited."""

    rank: int
    times: int  # meetings to which it came last
    caused_ns: int  # what all others waited in them
    op: str  # what it did longest beyond the others before it came, in the worst meeting
    excess_ns: int  # by how much


def meetings(timeline: Timeline) -> tuple[Meeting, ...]:
    """Every collective and message, in order of when it began to move."""
    graph = timeline.graph
    return tuple(_meeting(timeline, members) for members in _instances(graph, timeline))


def group_shares(found: tuple[Meeting, ...]) -> tuple[GroupShare, ...]:
    """Waiting apart from transfer, per group; the most waiting first."""
    by_group: dict[str, list[Meeting]] = defaultdict(list)
    for meeting in found:
        by_group[meeting.group].append(meeting)
    rows = [
        GroupShare(
            group,
            len({rank for m in some for rank in m.ranks}),
            len(some),
            sum(m.size_bytes for m in some),
            sum(m.waiting_ns for m in some),
            sum(m.transfer_ns * len(m.ranks) for m in some),
        )
        for group, some in by_group.items()
    ]
    return tuple(sorted(rows, key=lambda row: -row.waiting_ns - row.transfer_ns))


def stragglers(timeline: Timeline, found: tuple[Meeting, ...]) -> tuple[Straggler, ...]:
    """Ranks by what they made others wait."""
    late: dict[int, list[Meeting]] = defaultdict(list)
    for meeting in found:
        if meeting.waiting_ns:
            late[meeting.late_rank].append(meeting)
    of_rank = _rows_by_rank(timeline.graph)
    rows = [_straggler(timeline, rank, some, of_rank) for rank, some in late.items()]
    return tuple(sorted(rows, key=lambda row: -row.caused_ns))


def _rows_by_rank(graph: Graph) -> dict[int, Int64]:
    """Each rank's ops, ascending."""
    order = np.argsort(graph.ops.rank, kind="stable")
    borders = np.searchsorted(graph.ops.rank[order], np.array(graph.ranks)[1:])
    return dict(zip(graph.ranks, np.split(order, borders)))


def _instances(graph: Graph, timeline: Timeline) -> Iterator[Int64]:
    """Members of each instance, in order of its start."""
    ops = np.flatnonzero(graph.ops.instance != NONE)
    if not len(ops):
        return
    ops = ops[np.lexsort((graph.ops.instance[ops], timeline.start_ns[ops]))]
    number = graph.ops.instance[ops]
    _, first = np.unique(number, return_index=True)
    order = np.argsort(number, kind="stable")
    parts = np.split(ops[order], np.flatnonzero(np.diff(number[order])) + 1)
    for at in np.argsort(first, kind="stable"):
        yield parts[at]


def _meeting(timeline: Timeline, members: Int64) -> Meeting:
    graph, ops = timeline.graph, timeline.graph.ops
    ready = timeline.ready_ns[members]
    lasted = timeline.end_ns[members] - timeline.start_ns[members]
    kind, size = Collective(ops.collective[members[0]]), int(ops.size_bytes[members].max())
    group = int(ops.group[members[0]])
    transfer = int(lasted.min())
    carried = _BUS.get(kind, _once)(len(members)) * size
    return Meeting(
        instance=int(ops.instance[members[0]]),
        name=graph.text(int(ops.name[members[0]])),
        collective=kind.name.lower(),
        group=graph.groups[group].name if group != NONE else "",
        step=int(ops.step[members[0]]),
        size_bytes=size,
        ranks=tuple(ops.rank[members].tolist()),
        skew_ns=int(ready.max() - ready.min()),
        transfer_ns=transfer,
        waiting_ns=int((timeline.start_ns[members] - ready).sum()),
        bus_bytes_per_s=carried / (transfer / 1e9) if transfer else 0.0,
        late_rank=int(ops.rank[members[np.argmax(ready)]]),
    )


def _once(_members: int) -> float:
    return 1.0


def _all_but_own(members: int) -> float:
    return (members - 1) / members


_BUS: Final[dict[Collective, Callable[[int], float]]] = {
    Collective.ALL_REDUCE: lambda n: 2 * _all_but_own(n),
    Collective.REDUCE_SCATTER: _all_but_own,
    Collective.ALL_GATHER: _all_but_own,
    Collective.ALL_TO_ALL: _all_but_own,
}
"""Bytes over each member's link per byte of payload, as nccl-tests define bus bandwidth."""


def _straggler(
    timeline: Timeline, rank: int, late: list[Meeting], of_rank: dict[int, Int64]
) -> Straggler:
    worst = max(late, key=lambda meeting: meeting.waiting_ns)
    op, excess = _made_late(timeline, rank, worst, of_rank)
    return Straggler(rank, len(late), sum(m.waiting_ns for m in late), op, excess)


def _made_late(
    timeline: Timeline, rank: int, meeting: Meeting, of_rank: dict[int, Int64]
) -> tuple[str, int]:
    """What the rank did longer than its partners did on average, between the meeting before and
    its arrival: by name of the op."""
    members = timeline.members_of(meeting.instance)
    ranks = timeline.graph.ops.rank[members]
    until = timeline.ready_ns[members]
    spent = [_spent(timeline, of_rank[int(r)], int(at)) for r, at in zip(ranks, until)]
    mine = next(one for one, r in zip(spent, ranks) if r == rank)
    others = [one for one, r in zip(spent, ranks) if r != rank]
    if not mine or not others:
        return "", 0
    excess = {
        name: spent - sum(other.get(name, 0) for other in others) // len(others)
        for name, spent in mine.items()
    }
    name = max(excess, key=lambda key: excess[key])
    return timeline.graph.text(name), max(excess[name], 0)


def _spent(timeline: Timeline, of_rank: Int64, until: int) -> dict[int, int]:
    """Time by name of op on the rank of these ops, from its meeting before until then."""
    ops = timeline.graph.ops
    met = of_rank[(ops.instance[of_rank] != NONE) & (timeline.end_ns[of_rank] <= until)]
    since = int(timeline.end_ns[met].max(initial=0))
    inside = (timeline.start_ns[of_rank] >= since) & (timeline.end_ns[of_rank] <= until)
    works = (ops.instance[of_rank] == NONE) & (ops.kind[of_rank] != OpKind.WAIT)
    rows = of_rank[inside & works]
    names, inverse = np.unique(ops.name[rows], return_inverse=True)
    lasted = (timeline.end_ns[rows] - timeline.start_ns[rows]).astype(np.float64)
    sums = np.bincount(inverse.reshape(-1), weights=lasted, minlength=len(names))
    return dict(zip(names.tolist(), sums.astype(np.int64).tolist()))
