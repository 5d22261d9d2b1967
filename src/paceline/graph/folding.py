"""Ranks with the same program and costs, kept once: `fold` and `FoldedGraph`.

Ranks fall into classes. Two ranks are of one class when they have the same ops in the same order
at the same cost, and when ops at the same place wait for ops at the same place of ranks that are
of one class again. All ranks of a class then have the same times to the nanosecond, whatever the
rest of the graph does, so one of them can stand for all.
"""

from dataclasses import dataclass, replace
from hashlib import blake2b

import numpy as np
from numpy.typing import NDArray

from paceline.errors import GraphError
from paceline.graph.graph import Dependencies, Drains, Graph, Int32, Int64, MemoryEvents, OpColumns
from paceline.graph.kinds import NONE

UInt64 = NDArray[np.uint64]

_COSTS = (
    "kind",
    "phase",
    "dur_ns",
    "size_bytes",
    "flops",
    "collective",
    "dtype",
    "name",
    "layer",
    "tensor",
    "priority",
    "step",
    "basis",
    "scale_ppb",
    "work",
)


@dataclass(frozen=True, eq=False)
class FoldedGraph:
    """A graph of one rank for each class of like ranks.

    `graph` holds the representatives alone; where an op waits for an op of another rank, it waits
    for the one at the same place on that rank's representative, whose times are the same.
    """

    graph: Graph
    class_of_rank: Int32  # of every rank of the whole job, in the order of its ranks
    representatives: tuple[int, ...]  # the rank that stands for each class
    row_of: Int64 | None = None  # op of the whole graph -> op of `graph`; None where never drawn

    @property
    def ranks(self) -> int:
        """How many ranks the whole job has."""
        return len(self.class_of_rank)

    def unfolded(self, column: Int64) -> Int64:
        """A column of the folded timeline for all ops of the whole graph."""
        if self.row_of is None:
            raise GraphError("this job was made in folded form: no whole graph to unfold to")
        found: Int64 = column[self.row_of]
        return found


def fold(graph: Graph) -> FoldedGraph:
    """Classes of like ranks, and the graph of their representatives."""
    places = _Places.of(graph)
    classes = _refined(graph, places)
    kept_rank = np.array([np.argmax(classes == c) for c in range(classes.max() + 1)])
    stands_for = kept_rank[classes][places.rank]  # the representative's rank, for each op
    row = places.at(stands_for, places.local)  # the representative's op, for each op
    kept = np.flatnonzero(row == np.arange(len(graph)))
    new_id = np.full(len(graph), NONE, np.int64)
    new_id[kept] = np.arange(len(kept))
    return FoldedGraph(
        _quotient(graph, kept, new_id[row], _instance_marks(graph, places, classes)),
        classes.astype(np.int32),
        tuple(graph.ranks[r] for r in kept_rank),
        new_id[row],
    )


@dataclass(frozen=True, eq=False)
class _Places:
    """Where each op stands: its rank's row, and its place among that rank's ops."""

    rank: Int64
    local: Int64
    by_rank: Int64  # op ids, rank after rank
    first: Int64  # of each rank, in `by_rank`; one more at the end

    @classmethod
    def of(cls, graph: Graph) -> "_Places":
        rank = np.searchsorted(np.array(graph.ranks), graph.ops.rank)
        by_rank = np.argsort(rank, kind="stable")
        first = np.searchsorted(rank[by_rank], np.arange(len(graph.ranks) + 1))
        local = np.empty(len(graph), np.int64)
        local[by_rank] = np.arange(len(graph)) - first[rank[by_rank]]
        return cls(rank, local, by_rank, first)

    def at(self, rank: Int64, local: Int64) -> Int64:
        """The op at a place of a rank."""
        found: Int64 = self.by_rank[self.first[rank] + local]
        return found

    def of_rank(self, rank: int) -> Int64:
        return self.by_rank[self.first[rank] : self.first[rank + 1]]


def _refined(graph: Graph, places: _Places) -> Int64:
    """Class of each rank: split by program and costs, then by whom its ops wait for."""
    classes = _numbered(_programs(graph, places))
    owner = np.repeat(np.arange(len(graph)), np.diff(graph.deps.ptr))
    while True:
        marks = _dependency_marks(graph, places, classes, owner)
        marks = marks + _instance_marks(graph, places, classes)
        keys = [
            (int(classes[rank]), _digest(marks[places.of_rank(rank)]))
            for rank in range(len(graph.ranks))
        ]
        finer = _numbered(keys)
        if finer.max() == classes.max():
            return finer
        classes = finer


def _programs(graph: Graph, places: _Places) -> list[object]:
    """A key for each rank: equal where lanes, ops and costs are equal."""
    lanes = graph.lanes
    keys: list[object] = []
    for rank, number in enumerate(graph.ranks):
        mine = np.flatnonzero(lanes.rank == number)
        ops = places.of_rank(rank)
        local_lane = np.searchsorted(mine, graph.ops.lane[ops])
        columns = [getattr(graph.ops, name)[ops] for name in _COSTS]
        _, devices = np.unique(lanes.device[mine], return_inverse=True)
        own = (devices, lanes.kind[mine], lanes.discipline[mine])
        drains = _drains_of(graph, ops, mine)
        alone = bool((lanes.rank[np.isin(lanes.device, lanes.device[mine])] == number).all())
        keys.append((_digest(local_lane, *columns, *own, *drains), 0 if alone else rank + 1))
    return keys


def _drains_of(graph: Graph, ops: Int64, mine: Int64) -> list[Int64]:
    """Drains of a rank's ops, by place; lanes of other ranks by their number."""
    rows = np.flatnonzero(np.isin(graph.drains.op, ops))
    lane = graph.drains.lane[rows]
    inside = np.isin(lane, mine)
    return [
        np.searchsorted(ops, graph.drains.op[rows]),
        np.where(inside, np.searchsorted(mine, lane), -1 - lane),
    ]


def _dependency_marks(graph: Graph, places: _Places, classes: Int64, owner: Int64) -> UInt64:
    """For each op a number made of the places that it waits for, each place counted once."""
    src = graph.deps.src
    place = _mixed(classes[places.rank[src]], places.local[src], graph.deps.kind)
    return _sum_once(owner, place, len(graph))


def _instance_marks(graph: Graph, places: _Places, classes: Int64) -> UInt64:
    """For each op a number made of the places of its instance's members; 0 without one."""
    members = np.flatnonzero(graph.ops.instance != NONE)
    instance = graph.ops.instance[members].astype(np.int64)
    place = _mixed(classes[places.rank[members]], places.local[members])
    marks = np.zeros(len(graph), np.uint64)
    if len(members):
        marks[members] = _sum_once(instance, place, int(instance.max()) + 1)[instance]
    return marks


def _sum_once(rows: Int64, values: UInt64, count: int) -> UInt64:
    """Sum of the different values of each row, modulo 2^64."""
    order = np.lexsort((values, rows))
    rows, values = rows[order], values[order]
    fresh = np.ones(len(rows), np.bool_)
    fresh[1:] = (rows[1:] != rows[:-1]) | (values[1:] != values[:-1])
    total = np.zeros(count, np.uint64)
    np.add.at(total, rows[fresh], values[fresh])
    return total


def _mixed(*columns: NDArray[np.integer]) -> UInt64:
    """Columns hashed row by row into 64 bits."""
    found = np.full(len(columns[0]), 0x9E3779B97F4A7C15, np.uint64)
    for column in columns:
        found = (found ^ column.astype(np.uint64)) * np.uint64(0xBF58476D1CE4E5B9)
        found ^= found >> np.uint64(29)
        found = found * np.uint64(0x94D049BB133111EB)
        found ^= found >> np.uint64(32)
    return found


def _digest(*columns: NDArray[np.generic]) -> bytes:
    state = blake2b(digest_size=16)
    for column in columns:
        state.update(len(column).to_bytes(8, "little"))
        state.update(np.ascontiguousarray(column).tobytes())
    return state.digest()


def _numbered(keys: list[object] | list[tuple[int, bytes]]) -> Int64:
    """Keys as numbers from 0, in the order in which they first come."""
    seen: dict[object, int] = {}
    return np.array([seen.setdefault(key, len(seen)) for key in keys], np.int64)


def _quotient(graph: Graph, kept: Int64, row: Int64, marks: UInt64) -> Graph:
    """The representatives' ops, waiting for representatives only."""
    ops = {name: column[kept] for name, column in vars(graph.ops).items()}
    joined = ops["instance"] != NONE
    _, ops["instance"][joined] = np.unique(marks[kept][joined], return_inverse=True)
    return replace(
        graph,
        ops=OpColumns(**ops),
        deps=_dependencies(graph.deps, kept, row),
        drains=_kept_drains(graph.drains, kept),
        memory=_kept_memory(graph.memory, kept),
        spread=None,  # draws differ from rank to rank, so they cannot be folded
        meta={**graph.meta, "folded_from_ranks": len(graph.ranks)},
    )


def _dependencies(deps: Dependencies, kept: Int64, row: Int64) -> Dependencies:
    sizes = np.diff(deps.ptr)[kept]
    owner = np.repeat(np.arange(len(kept)), sizes)
    edge = np.repeat(deps.ptr[kept] - np.cumsum(sizes) + sizes, sizes) + np.arange(sizes.sum())
    src = row[deps.src[edge]]
    order = np.lexsort((src, owner))
    fresh = np.ones(len(order), np.bool_)
    fresh[1:] = (np.diff(owner[order]) != 0) | (np.diff(src[order]) != 0)
    order = order[fresh]
    ptr = np.concatenate([[0], np.cumsum(np.bincount(owner[order], minlength=len(kept)))])
    edge = edge[order]
    return Dependencies(
        ptr.astype(np.int64), src[order].astype(np.int32), deps.kind[edge], deps.inferred[edge]
    )


def _kept_drains(drains: Drains, kept: Int64) -> Drains:
    rows = np.flatnonzero(np.isin(drains.op, kept))
    return Drains(np.searchsorted(kept, drains.op[rows]).astype(np.int32), drains.lane[rows])


def _kept_memory(memory: MemoryEvents, kept: Int64) -> MemoryEvents:
    rows = np.flatnonzero(np.isin(memory.op, kept))
    return MemoryEvents(
        np.searchsorted(kept, memory.op[rows]).astype(np.int32),
        memory.device[rows],
        memory.delta_bytes[rows],
        memory.category[rows],
        memory.at_end[rows],
    )
