"""The new buckets' all-reduces, and the host's calls that hand them over."""

from typing import Final

import numpy as np

from paceline.graph.graph import Graph, Int64
from paceline.graph.kinds import NONE, UNPRICED, OpKind, Phase
from paceline.graph.rank_steps import firsts, totals
from paceline.graph.rebucket.rows import BucketRows
from paceline.graph.rebucket.source import Source
from paceline.graph.splice import Sort

NEW: Final = {
    "size_bytes": 0,
    "instance": NONE,
    "phase": int(Phase.COMMUNICATION),
    "tensor": NONE,
}
"""What new ops have in common but for what is said of them."""


def hosts(graph: Graph, source: Source, rows: BucketRows, behind: Int64) -> tuple[Int64, Sort]:
    """The host's calls that hand buckets over, and of which rows, where it had such calls:
    as long as these were in the mean."""
    ops, old, of, count = graph.ops, source.launches, source.launched, len(source.steps)
    many = np.bincount(of, minlength=count)
    mean = np.rint(totals(of, ops.dur_ns[old], count) / np.maximum(1, many)).astype(np.int64)
    called = np.flatnonzero(many[rows.step])
    step, behind = rows.step[called], behind[called]
    columns = {
        "like": firsts(of, old, count)[step],
        "behind": behind,
        "kind": OpKind.HOST,
        "dur_ns": mean[step],
        "lane": ops.lane[behind],
    }
    return called, Sort(rows.turn(called, 0, 0), {**columns, **NEW})


def calls(graph: Graph, source: Source, rows: BucketRows) -> Sort:
    like = source.first[rows.step]
    columns = {
        "like": like,
        "behind": rows.last,
        "kind": OpKind.COLLECTIVE,
        "dur_ns": UNPRICED,
        "lane": _lanes(graph, source, rows),
    }
    told = {"size_bytes": rows.size_bytes, "instance": _instances(graph, source, rows)}
    return Sort(rows.turn(np.arange(len(like)), 0, 1), {**columns, **NEW, **told})


def _lanes(graph: Graph, source: Source, rows: BucketRows) -> Int64:
    """Buckets of a step take turns on the lanes that its all-reduces were on."""
    ops, count = graph.ops, len(graph.lanes)
    keys = source.steps.of_op[source.old] * count + ops.lane[source.old]
    each, at = np.unique(keys, return_index=True)
    each = each[np.lexsort((at, each // count))]
    many = np.bincount(each // count, minlength=len(source.steps))
    begins = np.cumsum(many) - many
    found: Int64 = each[begins[rows.step] + rows.place % many[rows.step]] % count
    return found


def _instances(graph: Graph, source: Source, rows: BucketRows) -> Int64:
    """What joins the ranks' parts of a bucket; a lone rank's call that stands for all has none."""
    ops, first, step = graph.ops, source.first, source.steps.step
    joins = np.flatnonzero(first != NONE)
    joins = joins[ops.instance[first[joins]] != NONE]
    past = step[joins] - step.min(initial=0)
    keys = ops.group[first[joins]] * (np.int64(1) + past.max(initial=0)) + past
    _, at, pair = np.unique(keys, return_index=True, return_inverse=True)
    number = np.full(len(step), NONE, np.int64)
    number[joins] = at[pair]
    width = int(rows.place.max(initial=0)) + 1
    number = np.where(
        number == NONE, NONE, int(ops.instance.max(initial=NONE)) + 1 + number * width
    )
    found = number[rows.step]
    return np.where(found == NONE, NONE, found + rows.place)
