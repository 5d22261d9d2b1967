"""Each op's durations in all recorded steps that ran it: the samples that draws are made of."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from paceline.graph import NONE, UNPRICED, Graph
from paceline.graph.graph import Spread
from paceline.trace.trace import Bool, Int64

MOST_SAMPLES: Final = 4_000_000
"""Samples that a graph may carry, 32 MB: ten steps of 400,000 ops."""


def with_samples(graph: Graph, alike_of: Sequence[Int64], most: int = MOST_SAMPLES) -> Graph:
    """The graph with the durations of like ops (`alike_of`, part after part: equal numbers on one
    lane, NONE without) as each one's samples; a note where they would be too many."""
    steps = len(np.unique(graph.ops.step))
    possible = sum(int((alike != NONE).sum()) for alike in alike_of) * steps
    if possible > most:
        note = (
            f"durations of like ops are not kept as samples: up to {possible:,} are more than "
            f"{most:,}; import fewer steps to draw from them"
        )
        return replace(graph, meta={**graph.meta, "notes": [*graph.meta.get("notes", ()), note]})
    order, first, sizes = _groups(graph, np.concatenate([*alike_of]))
    if not len(order):
        return graph
    count, begin = np.zeros((2, len(graph)), np.int64)
    count[order] = np.repeat(sizes, sizes)
    begin[order] = np.repeat(first, sizes)
    ptr = np.concatenate([[0], np.cumsum(count)])
    row = np.arange(ptr[-1]) + np.repeat(begin - ptr[:-1], count)
    return replace(graph, spread=Spread(ptr, graph.ops.dur_ns[order][row]))


def _groups(graph: Graph, alike: Int64) -> tuple[NDArray[np.intp], Int64, Int64]:
    """Ops side by side in groups of like ones, and each group's first place and size."""
    ops = graph.ops
    known = np.flatnonzero((alike != NONE) & (ops.dur_ns != UNPRICED))
    order = known[np.lexsort((ops.step[known], alike[known], ops.lane[known]))]
    first = _borders(ops.lane[order], alike[order])
    useful = _usable(ops.step[order], ops.dur_ns[order], first)
    sizes = np.diff(np.append(first, len(order)))
    kept = sizes[useful]
    return order[np.repeat(useful, sizes)], np.cumsum(kept) - kept, kept


def _borders(*columns: NDArray[np.integer]) -> Int64:
    """Where a group of equal rows begins."""
    new = np.zeros(len(columns[0]), np.bool_)
    new[:1] = True
    for column in columns:
        new[1:] |= column[1:] != column[:-1]
    return np.flatnonzero(new).astype(np.int64)


def _usable(step: NDArray[np.int32], dur_ns: Int64, first: Int64) -> Bool:
    """Groups with one op a step, not all of one duration."""
    if not len(first):
        return np.zeros(0, np.bool_)
    again = np.zeros(len(step), np.int64)
    again[1:] = step[1:] == step[:-1]
    again[first] = 0
    varies = np.maximum.reduceat(dur_ns, first) > np.minimum.reduceat(dur_ns, first)
    usable: Bool = varies & (np.add.reduceat(again, first) == 0)
    return usable
