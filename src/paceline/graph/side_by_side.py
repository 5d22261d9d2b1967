"""`side_by_side`: several graphs as one, of which none shares anything with another.

Each has ranks, lanes, devices and instances of its own, and so runs as if it were alone, to the
nanosecond: what a pass over all ops costs beside the ops is paid once for all, and so is a change
that looks at no job as a whole. What ops allocate and samples of their durations are left out.
Graphs that stand so already can be joined to others, changed or not.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

import numpy as np

from paceline.graph.graph import (
    Dependencies,
    Drains,
    Graph,
    Group,
    Int64,
    Lanes,
    MemoryEvents,
    OpColumns,
)
from paceline.graph.kinds import NONE


@dataclass(frozen=True, eq=False)
class SideBySide:
    """Rank r of graph k is rank `k * width + r` of the one that holds all."""

    graph: Graph
    width: int
    tables: tuple[tuple[Group, ...], ...]  # by graph its groups, as it numbers its ranks itself

    def changed(self, graph: Graph) -> "SideBySide":
        """With what was made of the graph that holds all."""
        assert graph.groups is self.graph.groups, "what was made of it has the same groups"
        return replace(self, graph=graph)

    def told_apart(self) -> tuple[Graph, Int64]:
        """The graph with each rank under its own number, and groups that several have once; and by
        op the graph that it is of."""
        ops, lanes = self.graph.ops, self.graph.lanes
        of = ops.rank.astype(np.int64) // self.width
        groups, begin = _pool(self.tables)
        rows = [first + np.arange(len(table)) for first, table in zip(begin, self.tables)]
        row = np.concatenate([*rows, [NONE]])
        own = (ops.rank % self.width).astype(np.int32)
        told = replace(ops, rank=own, group=row[ops.group].astype(np.int32))
        made = replace(lanes, rank=(lanes.rank % self.width).astype(np.int32))
        return replace(self.graph, ops=told, lanes=made, groups=groups), of


def side_by_side(graphs: Sequence[Graph], width: int = 0) -> SideBySide:
    """What is known of the job is taken from the first. `width`: where more are to be joined to
    them, what is above every rank of all."""
    width = width or width_of(graphs)
    bare = (replace(graph, memory=MemoryEvents.none(), spread=None) for graph in graphs)
    return joined([SideBySide(graph, width, (graph.groups,)) for graph in bare])


def width_of(graphs: Sequence[Graph]) -> int:
    """What is above every rank of all graphs."""
    return 1 + max(max(graph.ranks) for graph in graphs)


def joined(parts: Sequence[SideBySide]) -> SideBySide:
    """Graphs that stand side by side already, of one width, beside one another."""
    if len(parts) == 1:
        return parts[0]
    graphs, width = [part.graph for part in parts], parts[0].width
    begins = _Begins.of(parts)
    works, work = _pool([graph.works for graph in graphs])
    names, places = _names([graph.names for graph in graphs])
    columns = {
        name: np.concatenate([vars(graph.ops)[name] for graph in graphs])
        for name in vars(graphs[0].ops)
    }
    owner = begins.owner
    columns["rank"] = columns["rank"] + begins.rank[owner].astype(np.int32)
    columns["lane"] = columns["lane"] + begins.lane[owner].astype(np.int32)
    columns["instance"] = _moved(columns["instance"], begins.op[owner])
    columns["group"] = _moved(columns["group"], begins.group[owner])
    columns["work"] = _moved(columns["work"], work[owner])
    for at, place in places.items():
        rows = slice(begins.op[at], begins.op[at] + len(graphs[at]))
        for name in ("name", "layer", "tensor"):
            columns[name][rows] = place[columns[name][rows]]
    made = Graph(
        ops=OpColumns(**columns),
        deps=_dependencies(graphs, begins),
        lanes=_lanes(graphs, begins),
        devices=tuple(chain.from_iterable(graph.devices for graph in graphs)),
        groups=tuple(_own_groups(graphs, begins)),
        names=names,
        drains=_drains(graphs, begins),
        memory=MemoryEvents.none(),
        works=works,
        facts=graphs[0].facts,
    )
    return SideBySide(made, width, tuple(chain.from_iterable(part.tables for part in parts)))


@dataclass(frozen=True, eq=False)
class _Begins:
    """By part: its first op, lane, device, group and rank; and by op the part."""

    op: Int64
    lane: Int64
    device: Int64
    group: Int64
    rank: Int64
    owner: Int64

    @staticmethod
    def of(parts: Sequence[SideBySide]) -> "_Begins":
        counts = [
            (len(g), len(g.lanes), len(g.devices), len(g.groups), len(part.tables) * part.width)
            for part in parts
            for g in (part.graph,)
        ]
        each = np.array(counts, np.int64).T
        op, lane, device, group, rank = np.cumsum(each, axis=1) - each
        return _Begins(op, lane, device, group, rank, np.repeat(np.arange(len(parts)), each[0]))


def _own_groups(graphs: Sequence[Graph], begins: _Begins) -> Iterator[Group]:
    """Every graph's groups, of ranks as they are numbered side by side."""
    for first, graph in zip(begins.rank.tolist(), graphs):
        for group in graph.groups:
            yield replace(group, ranks=tuple(first + rank for rank in group.ranks))


def _moved(column: Any, by: Int64) -> Any:
    return np.where(column == NONE, NONE, column + by).astype(np.int32)


def _pool(tables: Sequence[tuple[Any, ...]]) -> tuple[tuple[Any, ...], Int64]:
    """All tables one behind the other, one that several have once; and where each begins."""
    begins: dict[int, int] = {}
    found: list[Any] = []
    for table in tables:
        if id(table) not in begins:
            begins[id(table)] = len(found)
            found += table
    pooled = tables[0] if len(begins) == 1 else tuple(found)
    return pooled, np.array([begins[id(table)] for table in tables], np.int64)


def _names(tables: Sequence[tuple[str, ...]]) -> tuple[tuple[str, ...], dict[int, Int64]]:
    """Each name once, the shortest table first; and for each table that does not begin it, where
    its names stand: the last is that of NONE."""
    base = min(tables, key=len)
    number = {name: at for at, name in reversed([*enumerate(base)])}  # where it stands first
    found, places = list(base), dict[int, Int64]()
    for at, table in enumerate(tables):
        if table is base:
            continue
        known = len(base) if table[: len(base)] == base else 0
        for name in table[known:]:
            if name not in number:
                number[name] = len(found)
                found.append(name)
        rest = [number[name] for name in table[known:]]
        if rest or not known:
            places[at] = np.array([*range(known), *rest, NONE], np.int64)
    return tuple(found), places


def _dependencies(graphs: Sequence[Graph], begins: _Begins) -> Dependencies:
    counts = np.array([len(graph.deps) for graph in graphs], np.int64)
    before = np.cumsum(counts) - counts
    ptr = np.concatenate([graph.deps.ptr[:-1] for graph in graphs]) + before[begins.owner]
    src = np.concatenate([graph.deps.src for graph in graphs])
    return Dependencies(
        np.append(ptr, counts.sum()),
        src + np.repeat(begins.op, counts).astype(np.int32),
        np.concatenate([graph.deps.kind for graph in graphs]),
        np.concatenate([graph.deps.inferred for graph in graphs]),
    )


def _lanes(graphs: Sequence[Graph], begins: _Begins) -> Lanes:
    tables = [graph.lanes for graph in graphs]
    of = np.repeat(np.arange(len(tables)), [len(table) for table in tables])
    rank = np.concatenate([table.rank for table in tables]) + begins.rank[of]
    device = np.concatenate([table.device for table in tables]) + begins.device[of]
    return Lanes(
        rank.astype(np.int32),
        device.astype(np.int32),
        np.concatenate([table.kind for table in tables]),
        np.concatenate([table.discipline for table in tables]),
        tuple(chain.from_iterable(table.name for table in tables)),
    )


def _drains(graphs: Sequence[Graph], begins: _Begins) -> Drains:
    tables = [graph.drains for graph in graphs]
    of = np.repeat(np.arange(len(tables)), [len(table.op) for table in tables])
    op = np.concatenate([table.op for table in tables]) + begins.op[of]
    lane = np.concatenate([table.lane for table in tables]) + begins.lane[of]
    return Drains(op.astype(np.int32), lane.astype(np.int32))
