"""Imagined ranks -> one graph: work on one lane a rank, communication on one lane a group.

On GPUs a host lane launches both.

Each rank's collective waits for the work before it; work waits for a collective where the script
waited for it or read what it fills. Messages meet by sender, receiver and order. A collective is
joined across ranks where every member was imagined; else the imagined member stands for all.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from paceline.cluster import Cluster
from paceline.cluster.recognised import kept
from paceline.graph import (
    NONE,
    UNPRICED,
    Collective,
    DepKind,
    DType,
    Graph,
    GraphBuilder,
    LaneKind,
    MemoryCategory,
    OpKind,
    Phase,
    check,
)
from paceline.graph.earlier_schemas import known_axis
from paceline.graph.facts import Facts, Parameter
from paceline.graph.variants import Variant
from paceline.graph.work.columns import recorded_of
from paceline.imagine.imagined import Imagined, ImaginedOp, ImagineError
from paceline.imagine.imagined_host import HostThread
from paceline.imagine.unknown_work import unknown_work

_Groups = dict[tuple[int, ...], int]


def graph_of(ranks: Sequence[Imagined]) -> Graph:
    """The graph; `meta` holds the world's size and what was noted."""
    builder = GraphBuilder(_meta(ranks), _facts(ranks))
    meeting = _Meeting(builder, frozenset(one.rank for one in ranks))
    for one in ranks:
        _Rank(builder, one, meeting).draw()
    meeting.require_ends()
    return check(builder.build())


def on_cluster(graph: Graph, cluster: Cluster) -> Graph:
    """The graph, which now says on which devices its ranks run."""
    devices = dict.fromkeys(kept(cluster.device_of(rank)) for rank in graph.ranks)
    return replace(graph, facts=replace(graph.facts, gpus=tuple(devices)))


def noted(graph: Graph, note: str) -> Graph:
    """The graph, of which that is to be said too."""
    return replace(graph, meta={**graph.meta, "notes": [*graph.meta["notes"], note]})


def _facts(ranks: Sequence[Imagined]) -> Facts:
    """Parameters of all ranks, for stages of a pipeline hold others; buckets of the first."""
    sizes = {each.name: each.size_bytes for one in ranks for each in one.parameters}
    return Facts(
        world_size=ranks[0].world_size,
        parameters=tuple(Parameter(name, size) for name, size in sizes.items()),
        buckets=tuple(map(tuple, ranks[0].buckets)),
        variants=(Variant.CHANNELS_LAST,) if any(one.channels_last for one in ranks) else (),
    )


def _meta(ranks: Sequence[Imagined]) -> dict[str, Any]:
    world, names = ranks[0].world_size, [one.rank for one in ranks]
    notes = sorted({note for one in ranks for note in one.notes})
    if len(names) < world:
        shown = ", ".join(map(str, names[:4])) + (" ..." if len(names) > 4 else "")
        notes.append(f"rank {shown} was imagined and stands for all {world}")
    if unknown := unknown_work([row for one in ranks for row in one.rows]):
        notes.append(unknown)
    return {"source": "imagined", "ranks": names, "notes": notes}


class _Meeting:
    """Where ranks meet: groups by their members, instances by what was agreed."""

    def __init__(self, builder: GraphBuilder, imagined: frozenset[int]) -> None:
        self._builder, self._imagined = builder, imagined
        self._groups: _Groups = {}
        self._instances: dict[tuple[Any, ...], int] = {}
        self._ends: dict[tuple[Any, ...], set[int]] = defaultdict(set)

    def group(self, members: Sequence[int], name: str, axis: str) -> int:
        key = tuple(members)
        if key not in self._groups:
            self._groups[key] = self._builder.group(name, key, known_axis(axis))
        return self._groups[key]

    def collective(self, members: Sequence[int], turn: int) -> int:
        """Joined only where all members are there."""
        if not self._imagined.issuperset(members):
            return NONE
        return self._instance(("group", tuple(members), turn))

    def message(self, kind: int, source: int, target: int, turn: int) -> int:
        key = ("message", source, target, turn)
        self._ends[key].add(kind)
        return self._instance(key)

    def require_ends(self) -> None:
        for (_, source, target, turn), kinds in self._ends.items():
            if len(kinds) < 2:
                raise ImagineError(
                    f"message {turn} from rank {source} to rank {target} has only one end within "
                    "the imagined steps: in a real run one of them would wait for ever"
                )

    def _instance(self, key: tuple[Any, ...]) -> int:
        if key not in self._instances:
            self._instances[key] = self._builder.instance()
        return self._instances[key]


class _Rank:
    """One rank's part of the graph."""

    def __init__(self, builder: GraphBuilder, one: Imagined, meeting: _Meeting) -> None:
        self._builder, self._one, self._meeting = builder, one, meeting
        self._work = builder.lane(one.rank, "work", kind=LaneKind.STREAM)
        self._members = {group.name: group for group in one.groups}
        self._works = recorded_of(one.works) if one.works else ()
        self._lanes: dict[tuple[str, int, int], int] = {}
        self._turns: dict[tuple[Any, ...], int] = defaultdict(int)
        self._ops: list[int] = []
        self._host = HostThread(builder, one.rank) if one.gpu else None

    def draw(self) -> None:
        for row in self._one.rows:
            launch = None if self._host is None else self._host.launch(row, self._ops)
            self._ops.append(self._talk(row) if row.group else self._compute(row))
            if launch is not None:
                self._builder.link(launch, self._ops[-1], DepKind.LAUNCH)
        for event in self._one.memory:
            self._builder.allocate(
                self._ops[event.row],
                event.delta_bytes,
                MemoryCategory(event.category),
                at_end=event.delta_bytes < 0,
            )

    def _compute(self, row: ImaginedOp) -> int:
        op = self._builder.op(
            row.name,
            self._work,
            UNPRICED,
            phase=Phase(row.phase),
            layer=row.layer,
            tensor=row.tensor,
            dtype=DType(row.dtype),
            size_bytes=row.size_bytes,
            flops=row.flops,
            step=row.step,
            work=None if row.work == NONE else self._works[row.work],
        )
        self._wait(op, row, DepKind.WAIT)
        return op

    def _talk(self, row: ImaginedOp) -> int:
        group = self._members[row.group]
        op = self._builder.op(
            row.name,
            self._lane(row),
            UNPRICED,
            kind=OpKind(row.kind),
            phase=Phase.COMMUNICATION,
            layer=row.layer,
            collective=Collective(row.collective),
            dtype=DType(row.dtype),
            size_bytes=row.size_bytes,
            group=self._group(row),
            instance=self._instance(row, group.ranks),
            step=row.step,
        )
        self._wait(op, row, DepKind.LAUNCH)
        for ready in row.gradients:
            self._builder.link(self._ops[ready], op, DepKind.GRADIENT)
        return op

    def _group(self, row: ImaginedOp) -> int:
        """A message's own two ranks, so that its price is that of its link."""
        group = self._members[row.group]
        if row.peer == NONE:
            return self._meeting.group(group.ranks, group.name, group.axis)
        ends = sorted((self._one.rank, row.peer))
        return self._meeting.group(ends, f"{ends[0]} - {ends[1]}", "message")

    def _instance(self, row: ImaginedOp, members: Sequence[int]) -> int:
        me, peer = self._one.rank, row.peer
        if row.kind == OpKind.COLLECTIVE:
            return self._meeting.collective(members, self._turn(tuple(members)))
        ends = (me, peer) if row.kind == OpKind.SEND else (peer, me)
        return self._meeting.message(row.kind, *ends, self._turn(("message", *ends)))

    def _turn(self, key: tuple[Any, ...]) -> int:
        self._turns[key] += 1
        return self._turns[key] - 1

    def _lane(self, row: ImaginedOp) -> int:
        """One queue a group; messages one for each peer and direction."""
        key = (row.group, row.peer, row.kind)
        if key not in self._lanes:
            name = row.group if row.peer == NONE else f"{OpKind(row.kind).name} {row.peer}"
            self._lanes[key] = self._builder.lane(
                self._one.rank, f"communication {name}", kind=LaneKind.COMM_THREAD
            )
        return self._lanes[key]

    def _wait(self, op: int, row: ImaginedOp, kind: DepKind) -> None:
        for before in row.after:
            self._builder.link(self._ops[before], op, kind)
