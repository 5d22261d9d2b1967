"""`copied`: a graph made of copies of some of a graph's ops, each copy with the links inside it.

Steps that follow one another, replicas added and replicas taken away are all such graphs.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from paceline.graph.graph import (
    Bool,
    Dependencies,
    Drains,
    Graph,
    Int64,
    MemoryEvents,
    Spread,
)
from paceline.graph.kinds import NONE


@dataclass(frozen=True, eq=False)
class Copied:
    """The new graph, and of each of its ops the old op and the copy that it is part of."""

    graph: Graph
    source: Int64
    copy: Int64

    def of(self, old: Int64, copy: Int64) -> Int64:
        """The new ops that stand for old ones in the given copies; NONE where there is none."""
        found: Int64 = self._place()[copy, old]
        return found

    def _place(self) -> Int64:
        copies = int(self.copy.max(initial=0)) + 1
        place = np.full((copies, int(self.source.max(initial=0)) + 1), NONE, np.int64)
        place[self.copy, self.source] = np.arange(len(self.source))
        return place


def copied(graph: Graph, rows_of_copy: Sequence[Int64]) -> Copied:
    """One copy of each set of rows (ascending), one after the other. Lanes, groups and instances
    keep their numbers: what the copies are is for the caller to say."""
    source = np.concatenate([np.zeros(0, np.int64), *rows_of_copy])
    copy = np.repeat(np.arange(len(rows_of_copy)), [len(rows) for rows in rows_of_copy])
    made = replace(
        graph,
        ops=rows_of(graph.ops, source),
        deps=_dependencies(graph, rows_of_copy),
        drains=_events(graph.drains, rows_of_copy, len(graph)),
        memory=_events(graph.memory, rows_of_copy, len(graph)),
        spread=None if graph.spread is None else spread_of(graph.spread, source),
    )
    return Copied(made, source, copy)


def tiled(graph: Graph, times: int) -> Graph:
    """The whole graph so many times, one copy after the other, as `copied` makes it."""
    count, deps, spread = len(graph), graph.deps, graph.spread
    ptr = (deps.ptr[:-1] + np.arange(times)[:, None] * len(deps)).reshape(-1)
    src = (deps.src + np.arange(times, dtype=np.int32)[:, None] * np.int32(count)).reshape(-1)
    return replace(
        graph,
        ops=_tiled(graph.ops, times),
        deps=Dependencies(
            np.append(ptr, times * len(deps)),
            src,
            np.tile(deps.kind, times),
            np.tile(deps.inferred, times),
        ),
        drains=_with_ops(graph.drains, count, times),
        memory=_with_ops(graph.memory, count, times),
        spread=None if spread is None else spread_of(spread, np.tile(np.arange(count), times)),
    )


def _tiled(table: Any, times: int) -> Any:
    return type(table)(*[np.concatenate([column] * times) for column in vars(table).values()])


def _with_ops(table: Any, count: int, times: int) -> Any:
    """Drains or memory events of every copy's ops."""
    if not len(table.op):
        return table
    begin = np.repeat(np.arange(times, dtype=np.int32) * np.int32(count), len(table.op))
    made = _tiled(table, times)
    return replace(made, op=made.op + begin)


def rows_of(table: Any, rows: Int64 | Bool) -> Any:
    """The same table with these rows."""
    return type(table)(*[column[rows] for column in vars(table).values()])


def spread_of(spread: Spread, rows: Int64) -> Spread:
    """The samples of these ops."""
    count = np.diff(spread.ptr)[rows]
    ptr = np.concatenate([[0], np.cumsum(count)]).astype(np.int64)
    return Spread(ptr, spread.samples_ns[ragged(spread.ptr[rows], count)])


def ragged(first: Int64, count: Int64) -> Int64:
    """The positions first[i], first[i] + 1, ... of all rows, one row after the other."""
    begin = np.cumsum(count) - count
    found: Int64 = np.arange(int(count.sum())) + np.repeat(first - begin, count)
    return found


def _dependencies(graph: Graph, rows_of_copy: Sequence[Int64]) -> Dependencies:
    deps, begin = graph.deps, 0
    counts: list[Int64] = []
    sources: list[Int64] = []
    edges: list[Int64] = []
    for rows in rows_of_copy:
        place = np.full(len(graph), NONE, np.int64)
        place[rows] = begin + np.arange(len(rows))
        count = np.diff(deps.ptr)[rows]
        edge = ragged(deps.ptr[rows], count)
        src = place[deps.src[edge]]
        inside = src != NONE
        owner = np.repeat(np.arange(len(rows)), count)[inside]
        counts.append(np.bincount(owner, minlength=len(rows)))
        sources.append(src[inside])
        edges.append(edge[inside])
        begin += len(rows)
    none = np.zeros(0, np.int64)
    edge = np.concatenate([none, *edges])
    return Dependencies(
        np.concatenate([[0], np.cumsum(np.concatenate([none, *counts]))]).astype(np.int64),
        np.concatenate([none, *sources]).astype(np.int32),
        deps.kind[edge],
        deps.inferred[edge],
    )


def _events(table: Any, rows_of_copy: Sequence[Int64], count: int) -> Any:
    """Drains or memory events of the copies' ops."""
    if not len(table.op):
        return table
    parts, begin = [], 0
    for rows in rows_of_copy:
        place = np.full(count, NONE, np.int64)
        place[rows] = begin + np.arange(len(rows))
        kept = rows_of(table, place[table.op] != NONE)
        parts.append(replace(kept, op=place[kept.op].astype(np.int32)))
        begin += len(rows)
    return joined(parts) if parts else rows_of(table, np.zeros(0, np.int64))


def joined(parts: Sequence[Drains] | Sequence[MemoryEvents]) -> Any:
    """Tables of one type as one."""
    kind = type(parts[0])
    return kind(*(np.concatenate([getattr(p, f.name) for p in parts]) for f in fields(kind)))
