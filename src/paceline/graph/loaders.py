"""`loaded_beside`: batches prepared by workers of their own, beside the training thread.

A rank's batches go to its workers in turn; each takes as long as it took the thread. Workers begin
one after the other, for in a job that runs on they are spread over a batch's time.
"""

from dataclasses import dataclass, replace

import numpy as np

from paceline.errors import GraphError
from paceline.graph.graph import Bool, Graph, Int64, Lanes
from paceline.graph.kinds import NONE, DepKind, Discipline, LaneKind, OpKind, Phase
from paceline.graph.links import Links
from paceline.graph.scaled import works
from paceline.graph.splice import Added, spliced


@dataclass(frozen=True)
class _Batch:
    """One rank's loading in a step."""

    rows: Int64
    lane: int  # of the worker
    wait_ns: int  # before the worker's first batch
    needed_by: int  # the first op behind it on the thread; NONE


def loaded_beside(graph: Graph, workers: int) -> Graph:
    """The graph with `workers` loaders on each rank."""
    ops = graph.ops
    loads = works(graph) & (ops.phase == Phase.DATA)
    loads &= (graph.lanes.kind[ops.lane] == LaneKind.THREAD) & (ops.dur_ns > 0)
    if not loads.any():
        raise GraphError(
            "no op of this job prepares a batch on the training thread, so loading has nothing to "
            "take off it. Record a job that iterates over a DataLoader"
        )
    ranks = np.unique(ops.rank[loads]).tolist()
    first = {rank: len(graph.lanes) + i * workers for i, rank in enumerate(ranks)}
    batches = [b for r in ranks for b in _batches(graph, loads, r, first[r], workers)]
    wide = replace(graph, lanes=_with_lanes(graph.lanes, ranks, workers))
    return _moved(wide, batches)


def _batches(graph: Graph, loads: Bool, rank: int, first: int, workers: int) -> list[_Batch]:
    ops, found = graph.ops, []
    mine = np.flatnonzero(loads & (ops.rank == rank))
    for turn, step in enumerate(np.unique(ops.step[mine]).tolist()):
        rows = mine[ops.step[mine] == step]
        took = int(ops.dur_ns[rows].sum())
        behind = np.flatnonzero(ops.lane == ops.lane[rows[0]])
        behind = behind[(behind > rows[-1]) & ~loads[behind]]
        wait = turn * took // workers if turn < workers else 0
        needed = int(behind[0]) if len(behind) else NONE
        found.append(_Batch(rows, first + turn % workers, wait, needed))
    return found


def _moved(graph: Graph, batches: list[_Batch]) -> Graph:
    """Loads on their workers' lanes, each behind a wait."""
    gone, count = np.zeros(len(graph), np.bool_), len(graph)
    like = np.array([batch.rows[0] for batch in batches], np.int64)
    for batch in batches:
        gone[batch.rows] = True
    took = [int(graph.ops.dur_ns[batch.rows].sum()) for batch in batches]
    lanes = [batch.lane for batch in batches]
    columns = {
        "lane": [*lanes, *lanes],
        "kind": [*[OpKind.WAIT] * len(batches), *[OpKind.DATA] * len(batches)],
        "dur_ns": [*(batch.wait_ns for batch in batches), *took],
    }
    added = Added(np.concatenate([like, like]), np.concatenate([like, like]), columns)
    loads = count + len(batches) + np.arange(len(batches))
    needed = np.array([batch.needed_by for batch in batches], np.int64)
    there = needed != NONE
    links = Links.of(graph).joined(Links.all_of(needed[there], loads[there], DepKind.DATA))
    return spliced(graph, gone, added, links)


def _with_lanes(lanes: Lanes, ranks: list[int], workers: int) -> Lanes:
    """A thread for each worker, on the device of its rank's first thread."""
    like = [int(np.flatnonzero(lanes.rank == rank)[0]) for rank in ranks for _ in range(workers)]
    names = tuple(f"loader {worker}" for _ in ranks for worker in range(workers))
    return Lanes(
        rank=np.append(lanes.rank, lanes.rank[like]),
        device=np.append(lanes.device, lanes.device[like]),
        kind=np.append(lanes.kind, np.full(len(like), LaneKind.THREAD, np.uint8)),
        discipline=np.append(lanes.discipline, np.full(len(like), Discipline.RECORDED, np.uint8)),
        name=(*lanes.name, *names),
    )
