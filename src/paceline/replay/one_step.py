"""`one_step`: of a recording of several steps, the one that stands for all.

It is the step of median length as it was: medians op by op would be shorter than any real step, by
1 to 7 % in real recordings, for what one op lost another waited for. Ops keep their samples. All
ranks begin it at once, and what earlier steps had left in the queues of devices is not there.
"""

from dataclasses import fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from paceline.graph import NONE, Graph
from paceline.graph.graph import Bool, Dependencies, Drains, Int64, MemoryEvents, Spread
from paceline.replay.engine import replay
from paceline.replay.steps import step_times


def one_step(graph: Graph) -> Graph:
    """The graph of one step; the graph itself where it has no two. The first step is never
    taken: its ranks still wait for the one that began first."""
    times = step_times(replay(graph))
    if len(times.number) < 2:
        return graph
    later = np.argsort(times.lasted_ns[1:], kind="stable") + 1
    chosen = times.number[int(later[(len(later) - 1) // 2])]
    return replace(_cut(graph, chosen), meta={**graph.meta, "one_step": chosen})


def _cut(graph: Graph, chosen: int) -> Graph:
    """The graph of one step's ops; what they needed of earlier ones is met."""
    kept = graph.ops.step == chosen
    new, rows = np.where(kept, np.cumsum(kept) - 1, NONE), np.flatnonzero(kept)
    drains, memory = graph.drains, graph.memory
    return replace(
        graph,
        ops=_rows(graph.ops, rows),
        deps=_dependencies(graph, rows, new),
        drains=_moved(drains, kept[drains.op], new),
        memory=_moved(memory, kept[memory.op], new),
        spread=None if graph.spread is None else _spread(graph.spread, rows),
    )


def _rows(table: Any, rows: Int64 | Bool) -> Any:
    return type(table)(*(getattr(table, item.name)[rows] for item in fields(table)))


def _moved(table: Drains | MemoryEvents, kept: Bool, new: Int64) -> Any:
    """The rows of kept ops, under their new ids."""
    part = _rows(table, kept)
    return replace(part, op=new[part.op].astype(np.int32))


def _dependencies(graph: Graph, rows: Int64, new: Int64) -> Dependencies:
    """Links between kept ops. A thread that began to wait in the step before, for work of this one,
    is in this step's ops only from when the wait is over: they take over the link."""
    deps = graph.deps
    op, src = np.repeat(np.arange(len(graph)), np.diff(deps.ptr)), deps.src
    gone = new[op] == NONE
    heir = np.where(gone, _next_on_lane(graph, rows, op), op)
    inside = np.flatnonzero((heir != NONE) & (new[src] != NONE) & (~gone | (src < heir)))
    inside = inside[np.lexsort((src[inside], heir[inside]))]
    inside = inside[_fresh(heir[inside], src[inside])]
    count = np.bincount(new[heir[inside]], minlength=len(rows))
    return Dependencies(
        np.concatenate([[0], np.cumsum(count)]).astype(np.int64),
        new[src[inside]].astype(np.int32),
        deps.kind[inside],
        deps.inferred[inside],
    )


def _next_on_lane(graph: Graph, rows: Int64, op: Int64) -> Int64:
    """The first kept op behind each op on its lane; NONE without."""
    lane, count = graph.ops.lane.astype(np.int64), len(graph)
    order = rows[np.lexsort((rows, lane[rows]))]
    at = np.searchsorted(lane[order] * count + order, lane[op] * count + op)
    found = order[np.minimum(at, len(order) - 1)]
    return np.where((at < len(order)) & (lane[found] == lane[op]), found, NONE)


def _fresh(op: Int64, src: NDArray[np.int32]) -> Bool:
    """Which rows of sorted links are not those before them."""
    fresh = np.ones(len(op), np.bool_)
    fresh[1:] = (op[1:] != op[:-1]) | (src[1:] != src[:-1])
    return fresh


def _spread(spread: Spread, rows: Int64) -> Spread:
    count = np.diff(spread.ptr)[rows]
    ptr = np.concatenate([[0], np.cumsum(count)])
    at = np.arange(ptr[-1]) + np.repeat(spread.ptr[rows] - ptr[:-1], count)
    return Spread(ptr, spread.samples_ns[at])
