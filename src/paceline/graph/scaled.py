"""Durations multiplied, whether they are known or will be found later."""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from paceline.graph.border import UNSCALED
from paceline.graph.distinct import blocks
from paceline.graph.graph import Bool, Graph, Int64, Spread
from paceline.graph.kinds import UNPRICED, Basis
from paceline.graph.membership import TALKS, WORKS

Factors = NDArray[np.float64]


def scaled(
    graph: Graph, rows: Int64 | Bool, factor: float | Factors, basis: Basis | None = None
) -> Graph:
    """These ops take `factor` times as long, one for all or one by op: those with a duration now,
    and those whose price is found later (communication, on whatever cluster) then too. `basis` is
    what they rest on now."""
    ops, by = graph.ops, np.broadcast_to(np.asarray(factor, np.float64), (len(graph),))
    chosen = np.zeros(len(graph), np.bool_)
    chosen[rows] = True
    priced = ops.dur_ns != UNPRICED
    known, later = chosen & priced, chosen & (TALKS[ops.kind] | ~priced)
    dur, scale = _times(ops.dur_ns, known, by), _times(ops.scale_ppb, later, by)
    rests = ops.basis if basis is None else np.where(chosen, basis, ops.basis).astype(np.uint8)
    spread = None if graph.spread is None else _stretched(graph.spread, known, by)
    return replace(graph, ops=replace(ops, dur_ns=dur, scale_ppb=scale, basis=rests), spread=spread)


def unpriced(graph: Graph, rows: Int64 | Bool) -> Graph:
    """These ops' durations are for a cluster to find."""
    dur = graph.ops.dur_ns.copy()
    dur[rows] = UNPRICED
    spread = graph.spread
    if spread is not None:
        gone = np.zeros(len(graph), np.bool_)
        gone[rows] = True
        spread = _without(spread, gone)
    return replace(graph, ops=replace(graph.ops, dur_ns=dur), spread=spread)


def works(graph: Graph) -> Bool:
    """Ops that keep a thread or a stream busy with the rank's own work."""
    return WORKS[graph.ops.kind]


def ppb(graph: Graph) -> "np.ndarray[tuple[int], np.dtype[np.float64]]":
    """By what prices that are found later are multiplied."""
    return graph.ops.scale_ppb / UNSCALED


def _times(values: Int64, rows: Bool, by: Factors) -> Int64:
    """These rows multiplied; the very column where there are none."""
    if not rows.any():
        return values
    found = values.copy()
    for block in blocks(len(values)):
        at = np.flatnonzero(rows[block]) + block.start
        found[at] = np.rint(found[at] * by[at])
    return found


def _stretched(spread: Spread, rows: Bool, by: Factors) -> Spread:
    samples = np.empty_like(spread.samples_ns)
    for block in blocks(len(rows)):
        ptr = spread.ptr[block.start : block.stop + 1]
        own, factor = slice(ptr[0], ptr[-1]), np.where(rows[block], by[block], 1.0)
        samples[own] = np.rint(spread.samples_ns[own] * np.repeat(factor, np.diff(ptr)))
    return Spread(spread.ptr, samples)


def _without(spread: Spread, gone: Bool) -> Spread:
    sizes = np.where(gone, 0, np.diff(spread.ptr))
    kept = ~np.repeat(gone, np.diff(spread.ptr))
    ptr = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    return Spread(ptr, spread.samples_ns[kept])


__all__ = ["ppb", "scaled", "unpriced", "works"]
