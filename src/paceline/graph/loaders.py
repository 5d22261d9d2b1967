"""`loaded_beside`: batches prepared by workers of their own, beside the training thread.

A rank's batches go to its workers in turn. What a batch takes is what it took the thread: waiting
for storage, work on a core, copies into the batch; and where it is known, what handing it over
takes on both sides. The thread takes batches in order, and waits for the one that is next.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from paceline.errors import GraphError
from paceline.graph.graph import Bool, Graph, Int64, Lanes
from paceline.graph.kinds import DepKind, Discipline, LaneKind, OpKind, Phase
from paceline.graph.links import Links
from paceline.graph.scaled import works
from paceline.graph.splice import Added, spliced

HAND_OVER = "hand over"
"""What a worker's last op of a batch and the thread's taking of it are called."""


def loads_of(graph: Graph) -> Bool:
    """Ops of the training threads that bring in batches: work, and waits for storage."""
    ops = graph.ops
    found: Bool = (works(graph) | (ops.kind == OpKind.WAIT)) & (ops.phase == Phase.DATA)
    found &= (graph.lanes.kind[ops.lane] == LaneKind.THREAD) & (ops.dur_ns > 0)
    if graph.facts.loading.workers:
        raise GraphError(
            f"the job's batches were prepared by {graph.facts.loading.workers} workers, of which "
            "its threads do not show what a batch takes. Record it with num_workers=0"
        )
    if not found.any():
        raise GraphError(
            "no op of this job prepares a batch on the training thread, so loading has nothing to "
            "take off it. Record a job that iterates over a DataLoader"
        )
    return found


def loaded_beside(graph: Graph, workers: int) -> Graph:
    """The graph with `workers` loaders on each rank, which prepare as far ahead as they can."""
    loads = loads_of(graph)
    seats = _Seats(graph, sorted(np.unique(graph.ops.rank[loads]).tolist()), workers)
    batches = [batch for rank in seats.ranks for batch in _batches(graph, loads, rank, seats)]
    loading = replace(graph.facts.loading, workers=workers)
    wide = replace(
        graph,
        lanes=seats.with_lanes(),
        names=(*graph.names, HAND_OVER),
        facts=replace(graph.facts, loading=loading),
    )
    return _moved(wide, batches)


@dataclass(frozen=True, eq=False)
class _Seats:
    """Lanes that are added for each rank: its workers, then its storage where that has a limit."""

    graph: Graph
    ranks: list[int]
    workers: int

    @property
    def storages(self) -> int:
        return int(self.graph.facts.loading.storage_bytes_per_s > 0)

    def worker(self, rank: int, turn: int) -> int:
        return self._first(rank) + turn % self.workers

    def storage(self, rank: int, turn: int) -> int:
        """The worker's own lane where storage serves as many as ask."""
        return self._first(rank) + self.workers if self.storages else self.worker(rank, turn)

    def _first(self, rank: int) -> int:
        return len(self.graph.lanes) + self.ranks.index(rank) * (self.workers + self.storages)

    def with_lanes(self) -> Lanes:
        """On the device of each rank's first thread."""
        lanes, each = self.graph.lanes, self.workers + self.storages
        first = [int(np.flatnonzero(lanes.rank == rank)[0]) for rank in self.ranks]
        like = np.repeat(np.array(first, np.int64), each)
        kinds = [LaneKind.THREAD] * self.workers + [LaneKind.COPY_ENGINE] * self.storages
        orders = [Discipline.RECORDED] * self.workers + [Discipline.PRIORITY] * self.storages
        names = [f"loader {n}" for n in range(self.workers)]
        names += ["storage"] * self.storages
        return Lanes(
            rank=np.append(lanes.rank, lanes.rank[like]),
            device=np.append(lanes.device, lanes.device[like]),
            kind=np.append(lanes.kind, np.array(kinds * len(self.ranks), np.uint8)),
            discipline=np.append(lanes.discipline, np.array(orders * len(self.ranks), np.uint8)),
            name=(*lanes.name, *names * len(self.ranks)),
        )


@dataclass(frozen=True)
class _Batch:
    """One rank's loading in a step."""

    rows: Int64
    worker: int  # lane
    storage: int  # lane
    wait_ns: int  # before the worker's first batch


def _batches(graph: Graph, loads: Bool, rank: int, seats: _Seats) -> Iterator[_Batch]:
    """Of steps that stand for all, workers begin one after the other: in a job that runs on they
    are spread over a batch's time."""
    ops = graph.ops
    mine = np.flatnonzero(loads & (ops.rank == rank))
    for turn, step in enumerate(np.unique(ops.step[mine]).tolist()):
        rows = mine[ops.step[mine] == step]
        first = turn < seats.workers
        spread = first and not graph.facts.steps_overlap
        wait = turn * int(ops.dur_ns[rows].sum()) // seats.workers if spread else 0
        yield _Batch(rows, seats.worker(rank, turn), seats.storage(rank, turn), wait)


@dataclass(frozen=True)
class _Part:
    """A new op with the columns of `like`, in id order behind `behind`."""

    like: int
    behind: int
    lane: int
    kind: OpKind
    dur_ns: int
    handed_over: bool = False
    aside: bool = False  # nothing waits for it


def _moved(graph: Graph, batches: list[_Batch]) -> Graph:
    """Batches on their workers' lanes: each part waits for the one before it, and the first one for
    what its worker did last."""
    gone, count = np.zeros(len(graph), np.bool_), len(graph)
    parts: list[_Part] = []
    links: list[tuple[int, int]] = []
    last: dict[int, int] = {}  # by worker
    for batch in batches:
        gone[batch.rows] = True
        before = last.get(batch.worker)
        for part in _parts(graph, batch):
            here = count + len(parts)
            if before is not None:
                links.append((here, before))
            before = before if part.aside else here
            if part.lane == batch.worker:
                last[batch.worker] = here
            parts.append(part)
    ops, sources = (np.array(each, np.int64) for each in zip(*links))
    fresh = Links.all_of(ops, sources, DepKind.DATA)
    return spliced(graph, gone, _added(graph, parts), Links.of(graph).joined(fresh))


def _added(graph: Graph, parts: list[_Part]) -> Added:
    like, behind = (
        np.array([getattr(part, name) for part in parts], np.int64) for name in ("like", "behind")
    )
    handed = np.array([part.handed_over for part in parts], np.bool_)
    columns = {
        "lane": [part.lane for part in parts],
        "kind": [part.kind for part in parts],
        "dur_ns": [part.dur_ns for part in parts],
        "name": np.where(handed, len(graph.names) - 1, graph.ops.name[like]),
    }
    return Added(like, behind, columns)


def _parts(graph: Graph, batch: _Batch) -> Iterator[_Part]:
    """In turn; the last ones are the training thread's."""
    ops, told = graph.ops, graph.facts.loading
    kinds = _as(ops.kind[batch.rows])
    first, end = int(batch.rows[0]), int(batch.rows[-1])
    if batch.wait_ns:
        yield _Part(first, end, batch.worker, OpKind.WAIT, batch.wait_ns)
    yield from _stored(graph, batch, batch.rows[kinds == OpKind.WAIT])
    for kind in (OpKind.DATA, OpKind.COPY):
        rows = batch.rows[kinds == kind]
        if len(rows):
            yield _Part(int(rows[0]), end, batch.worker, kind, int(ops.dur_ns[rows].sum()))
    yield _Part(first, end, batch.worker, OpKind.DATA, told.sent_ns, handed_over=True)
    thread = int(ops.lane[first])
    yield _Part(first, end, thread, OpKind.HOST, told.taken_ns, handed_over=True)
    if told.answered_ns:
        yield _Part(first, end, thread, OpKind.WAIT, told.answered_ns, handed_over=True)


def _stored(graph: Graph, batch: _Batch, rows: Int64) -> Iterator[_Part]:
    """Waiting for storage as long as the thread did; storage is busy for what the batch's bytes
    take it, which may be longer: it reads ahead while who asked works on what came."""
    if not len(rows):
        return
    first, end = int(rows[0]), int(batch.rows[-1])
    waited = int(graph.ops.dur_ns[rows].sum())
    yield _Part(first, end, batch.storage, OpKind.WAIT, waited)
    rate = graph.facts.loading.storage_bytes_per_s
    busy = round(int(graph.ops.size_bytes[rows].sum()) / rate * 1e9) if rate else 0
    if busy > waited:
        yield _Part(first, end, batch.storage, OpKind.WAIT, busy - waited, aside=True)


def _as(kinds: "np.ndarray[tuple[int], np.dtype[np.uint8]]") -> Int64:
    """Whatever else keeps a core busy counts as preparing data."""
    kept = np.isin(kinds, (OpKind.WAIT, OpKind.COPY))
    return np.where(kept, kinds, OpKind.DATA).astype(np.int64)
