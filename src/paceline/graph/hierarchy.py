"""`in_levels`: an all-reduce of gradients as three collectives: inside each host, across, inside.

Gloo runs a reduce-scatter as a whole all-reduce, so there a host's first rank is sent the sum
(reduce), exchanges it with the other hosts' and hands it out (broadcast). Streams of a device have
BlueConnect's form: reduce-scatter, all-reduce of each share across, all-gather.
"""

from dataclasses import dataclass, replace

import numpy as np

from paceline.errors import GraphError
from paceline.graph.gradients import no_exchange, reducing
from paceline.graph.graph import Graph, Group, Int64
from paceline.graph.kinds import NONE, UNPRICED, Collective, DepKind, LaneKind
from paceline.graph.links import Links
from paceline.graph.splice import Added, spliced


@dataclass(frozen=True)
class Levels:
    """Where a rank stands in a group that is cut in hosts."""

    inside: tuple[int, ...]  # ranks of its host
    across: tuple[int, ...]  # ranks with which it exchanges; empty where it does not

    @staticmethod
    def of(rank: int, ranks: tuple[int, ...], on_host: int, *, led: bool) -> "Levels":
        """`led`: the first of each host alone exchanges, else each with those at its place."""
        if on_host < 1 or len(ranks) % on_host:
            raise GraphError(
                f"{len(ranks)} workers do not stand on hosts of {on_host}; give a number that "
                "divides them"
            )
        at = ranks.index(rank)
        first, place = at - at % on_host, at % on_host
        across = () if led and place else tuple(ranks[place::on_host])
        return Levels(ranks[first : first + on_host], across if len(across) > 1 else ())


def in_levels(graph: Graph, on_host: int) -> Graph:
    """The graph with `on_host` neighbouring members of each group on a host."""
    links = Links.of(graph)
    calls = reducing(graph, links)
    if not len(calls):
        raise no_exchange(
            graph,
            "the recording does not say which collectives reduce gradients, so they cannot be "
            "done host by host. Record a job under DDP with `paceline record`.",
        )
    work = _Work(graph, on_host)
    for call in calls.tolist():
        work.change(call)
    return work.graph_made(links)


class _Work:
    """Collects what each all-reduce becomes."""

    def __init__(self, graph: Graph, on_host: int) -> None:
        self.graph, self.on_host = graph, on_host
        self.groups, self.known = list(graph.groups), dict[tuple[int, ...], int]()
        self.instances: dict[tuple[int, ...], int] = {}
        self.new: list[tuple[int, int, int, int, int]] = []  # call, collective, group, inst., size
        self.rows: list[tuple[int, int, DepKind]] = []
        self.ends = np.arange(len(graph))  # by call: the last of its collectives
        columns = ("collective", "group", "instance", "dur_ns")
        self.columns = {name: getattr(graph.ops, name).copy() for name in columns}

    def change(self, call: int) -> None:
        ops, graph = self.graph.ops, self.graph
        led = graph.lanes.kind[ops.lane[call]] != LaneKind.STREAM
        ranks = graph.groups[int(ops.group[call])].ranks
        levels = Levels.of(int(ops.rank[call]), ranks, self.on_host, led=led)
        first, last = _INSIDE[led]
        size, which = int(ops.size_bytes[call]), int(ops.instance[call])
        self.columns["collective"][call] = first
        self.columns["group"][call] = self.group(levels.inside)
        self.columns["instance"][call] = self.instance(which, 0, *levels.inside)
        self.columns["dur_ns"][call] = UNPRICED
        before = call
        if levels.across:
            each = size if led else size // self.on_host
            before = self.add(call, Collective.ALL_REDUCE, levels.across, which, each)
            self.rows.append((before, call, DepKind.LAUNCH))
        self.ends[call] = self.add(call, last, levels.inside, which, size)
        self.rows.append((int(self.ends[call]), call, DepKind.LAUNCH))
        if before != call:
            self.rows.append((int(self.ends[call]), before, DepKind.DATA))

    def add(
        self, call: int, kind: Collective, ranks: tuple[int, ...], which: int, size_bytes: int
    ) -> int:
        level = 1 if kind is Collective.ALL_REDUCE else 2
        instance = self.instance(which, level, *ranks)
        self.new.append((call, kind, self.group(ranks), instance, size_bytes))
        return len(self.graph) + len(self.new) - 1

    def group(self, ranks: tuple[int, ...]) -> int:
        if ranks not in self.known:
            self.known[ranks] = len(self.groups)
            self.groups.append(Group(f"level of {ranks[0]}", ranks))
        return self.known[ranks]

    def instance(self, *key: int) -> int:
        highest = int(self.graph.ops.instance.max(initial=NONE))
        return self.instances.setdefault(key, highest + 1 + len(self.instances))

    def graph_made(self, links: Links) -> Graph:
        like, collective, group, instance, size = np.array(self.new, np.int64).reshape(-1, 5).T
        columns = {
            "collective": collective,
            "group": group,
            "instance": instance,
            "size_bytes": size,
            "dur_ns": np.full(len(like), UNPRICED),
        }
        moved = Links(links.op, self.ends[links.src], links.kind, links.inferred)
        for kind in (DepKind.LAUNCH, DepKind.DATA):
            part = np.array([(op, src) for op, src, k in self.rows if k is kind], np.int64)
            part = part.reshape(-1, 2)
            moved = moved.joined(Links.all_of(part[:, 0], part[:, 1], kind))
        changed = replace(
            self.graph,
            ops=replace(self.graph.ops, **self.columns),
            groups=tuple(self.groups),
        )
        gone = np.zeros(len(self.graph), np.bool_)
        behind: Int64 = like
        return spliced(changed, gone, Added(like, behind, columns), moved)


_INSIDE = {
    True: (Collective.REDUCE, Collective.BROADCAST),
    False: (Collective.REDUCE_SCATTER, Collective.ALL_GATHER),
}
"""The first and last collective, by whether one rank leads its host."""
