"""`Moved`: the updates where they come to stand, as new ops."""

from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from paceline.graph.graph import Bool, Graph, Int64
from paceline.graph.kinds import NONE, LaneKind, OpKind, Phase
from paceline.graph.late_update.shares import shares_of
from paceline.graph.late_update.source import Source
from paceline.graph.rank_steps import firsts, totals
from paceline.graph.splice import Sort

_NEW: Final = {"phase": int(Phase.UPDATE), "layer": NONE, "tensor": NONE}


@dataclass(frozen=True, eq=False)
class Moved:
    """The updates in the next steps, one row for each bucket that has one."""

    use: Int64  # the op before which it stands
    on_stream: Bool
    like: Int64
    dur_ns: Int64
    call: Int64  # a call of the old update by which the host launched kernels, or NONE
    call_ns: Int64  # what such a call took in the mean


def moved_of(source: Source) -> Moved:
    graph, steps, update, count = source.graph, source.steps, source.update, len(source.steps)
    streams = graph.lanes.kind == LaneKind.STREAM
    kernel = streams[graph.ops.lane[update]]
    device = totals(steps.of_op[update], kernel, count) > 0
    host = ~kernel & device[steps.of_op[update]]
    work, calls = update[~host], update[host]
    step = source.buckets.step[source.rows]
    whole = totals(steps.of_op[work], np.maximum(graph.ops.dur_ns[work], 0), count)
    first = firsts(steps.of_op[work], work, count)[step]
    called = np.bincount(steps.of_op[calls], minlength=count)
    mean = totals(steps.of_op[calls], graph.ops.dur_ns[calls], count) / np.maximum(1, called)
    return Moved(
        source.use,
        streams[graph.ops.lane[source.use]],
        np.where(first == NONE, source.use, first),
        shares_of(whole, step, source.buckets.size_bytes[source.buckets.held[source.rows]]),
        firsts(steps.of_op[calls], calls, count)[step],
        np.rint(mean).astype(np.int64)[step],
    )


def waits(graph: Graph, moved: Moved, rows: Int64) -> Sort:
    """A thread waits for the bucket."""
    return Sort(3 * rows, {**_before(graph, moved, rows), "kind": OpKind.WAIT, "dur_ns": 0})


def work(graph: Graph, moved: Moved) -> Sort:
    rows = np.arange(len(moved.use))
    told = {"kind": OpKind.COMPUTE, "dur_ns": moved.dur_ns}
    return Sort(3 * rows + 1, {**_before(graph, moved, rows), **told})


def launches(graph: Graph, moved: Moved, rows: Int64, launch: Int64) -> Sort:
    """The host launches the update's kernel before that of the op which it stands before."""
    told = {
        "like": moved.call[rows],
        "behind": launch - 1,
        "kind": OpKind.HOST,
        "lane": graph.ops.lane[launch],
        "dur_ns": moved.call_ns[rows],
    }
    return Sort(3 * rows + 2, {**_before(graph, moved, rows), **told})


def _before(graph: Graph, moved: Moved, rows: Int64) -> dict[str, Any]:
    use = moved.use[rows]
    told = {"lane": graph.ops.lane[use], "step": graph.ops.step[use]}
    return {"like": moved.like[rows], "behind": use - 1, **told, **_NEW}
