"""Lengths over the recorded steps: of a stretch's work by phase, and of each communication."""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from paceline.graph.condense.cuts import Cuts
from paceline.graph.condense.shapes import Shapes
from paceline.graph.copying import copied
from paceline.graph.graph import Graph, Int32, Int64, Spread
from paceline.graph.kinds import NONE, UNPRICED
from paceline.graph.rank_steps import largest, numbered


@dataclass(frozen=True, eq=False)
class Typical:
    """The reference step as a graph, and which op of the recording each of its ops is."""

    graph: Graph
    row: Int64


def with_medians(graph: Graph, cuts: Cuts, shapes: Shapes) -> Typical:
    """The reference step; what ops of one stretch and phase take together is its median over the
    steps, shared among them as they took it in the reference."""
    rows = np.flatnonzero(graph.ops.step == shapes.reference)
    if shapes.reference == NONE:
        rows = np.arange(len(graph))
    step = copied(graph, [rows]).graph
    if len(numbered(graph.ops.step)[0]) < 2:
        return Typical(step, rows)
    which, samples = _samples(graph, cuts, shapes)
    dur = _shared(step.ops.dur_ns, which[rows], np.rint(np.median(samples.filled, axis=1)))
    spread = _spread(dur, which[rows], samples)
    ops = replace(step.ops, dur_ns=dur)
    return Typical(replace(step, ops=ops, spread=spread), rows)


@dataclass(frozen=True, eq=False)
class _Samples:
    """One row a group of ops that belong together, one column a step that has it."""

    filled: NDArray[np.float64]  # where a rank's step was another, the median stands in


def _samples(graph: Graph, cuts: Cuts, shapes: Shapes) -> tuple[Int64, _Samples]:
    """The group of each op (NONE outside), and what each group took in each step."""
    ops = graph.ops
    talks = cuts.turn != NONE
    grouped = shapes.alike & ((cuts.stretch != NONE) | talks) & (ops.dur_ns != UNPRICED)
    rows = np.flatnonzero(grouped)
    group = _numbered(
        np.where(talks, ops.rank, ops.lane)[rows],
        np.where(talks, cuts.turn, cuts.stretch)[rows],
        np.where(talks, np.int32(NONE), ops.phase)[rows],
    )
    steps, cell = numbered(ops.step[rows])
    shape = int(group.max(initial=-1)) + 1, len(steps)
    cell += group * shape[1]
    table = np.bincount(cell, ops.dur_ns[rows], shape[0] * shape[1]).reshape(shape)
    known = _known(graph, shapes, rows, group, table.shape, steps)
    middle = np.nanmedian(np.where(known, table, np.nan), axis=1, keepdims=True)
    which = np.full(len(graph), NONE, np.int64)
    which[rows] = group
    return which, _Samples(np.where(known, table, middle))


def _numbered(*columns: Int32 | Int64) -> Int64:
    """By row a number, the same where all columns are; in their order, the first one foremost."""
    key = np.zeros(len(columns[0]), np.int64)
    for column in columns:
        least = int(column.min(initial=0))
        key *= int(column.max(initial=0)) - least + 1
        key += column
        key -= least
    return numbered(key)[1]


def _known(
    graph: Graph,
    shapes: Shapes,
    rows: Int64,
    group: Int64,
    shape: tuple[int, ...],
    steps: Int64,
) -> NDArray[np.bool_]:
    """Which steps of a group count: those in which its rank did what most of its steps do."""
    ops = graph.ops
    counted = np.zeros((int(ops.rank.max(initial=0)) + 1, len(steps) + 1), np.bool_)
    alike = np.flatnonzero(shapes.alike)
    column = np.searchsorted(steps, ops.step[alike])
    there = np.append(steps, 0)[column] == ops.step[alike]
    counted[ops.rank[alike], np.where(there, column, len(steps))] = True
    rank_of = np.zeros(shape[0], np.int64)
    rank_of[group] = ops.rank[rows]
    return counted[rank_of, : len(steps)].reshape(shape)


def _shared(dur_ns: Int64, which: Int64, whole: NDArray[np.float64]) -> Int64:
    """Durations scaled so that each group takes its whole to the nanosecond."""
    mine = which != NONE
    had = np.bincount(which[mine], np.maximum(dur_ns[mine], 0), len(whole))
    factor = np.divide(whole, had, out=np.zeros(len(whole)), where=had > 0)
    found = dur_ns.copy()
    found[mine] = np.rint(dur_ns[mine] * factor[which[mine]]).astype(np.int64)
    left = (whole - np.bincount(which[mine], found[mine], len(whole))).astype(np.int64)
    longest = _longest(found, which, len(whole))
    there = np.flatnonzero(longest != NONE)
    found[longest[there]] = np.maximum(found[longest[there]] + left[there], 0)
    return found


def _longest(dur_ns: Int64, which: Int64, count: int) -> Int64:
    """The longest op of each group; NONE of a group without one."""
    rows = np.flatnonzero(which != NONE)
    at = largest(which[rows], dur_ns[rows], count)
    return np.where(at == NONE, NONE, np.append(rows, NONE)[at])


def _spread(dur_ns: Int64, which: Int64, samples: _Samples) -> Spread:
    """Each op's share of what its group took in each step; none where all were equal."""
    table = samples.filled
    whole = np.median(table, axis=1)
    varies = (table.max(axis=1, initial=0) > table.min(axis=1, initial=np.inf)) & (whole > 0)
    sampled = (which != NONE) & np.append(varies, False)[which]
    rows = np.flatnonzero(sampled)
    share = dur_ns[rows] / whole[which[rows]]
    values = np.rint(table[which[rows]] * share[:, None]).astype(np.int64)
    ptr = np.concatenate([[0], np.cumsum(np.where(sampled, table.shape[1], 0))])
    return Spread(ptr.astype(np.int64), values.reshape(-1))
