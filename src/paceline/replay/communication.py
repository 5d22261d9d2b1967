"""Communication on a timeline: each collective's skew and transfer, and each group's waiting."""

from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np

from paceline.graph import NONE, Collective, Graph
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
