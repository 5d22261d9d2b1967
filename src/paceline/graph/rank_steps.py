"""`RankSteps`: the steps of all ranks as rows, so that a change is made to all of them at once."""

from dataclasses import dataclass

import numpy as np

from paceline.graph.distinct import Distinct
from paceline.graph.graph import Graph, Int32, Int64
from paceline.graph.kinds import NONE


@dataclass(frozen=True, eq=False)
class RankSteps:
    """One row for each rank and step of a graph, in the order of ranks and then of steps."""

    of_op: Int64  # the row of each op
    rank: Int64
    step: Int64

    @staticmethod
    def of(graph: Graph) -> "RankSteps":
        ops = graph.ops
        steps, step = numbered(ops.step)
        key = ops.rank.astype(np.int64) * len(steps) + step
        there = np.zeros(int(key.max(initial=-1)) + 1, np.bool_)
        there[key] = True
        rows = np.flatnonzero(there)
        of_op = (np.cumsum(there) - 1)[key]
        return RankSteps(of_op, rows // len(steps), steps[rows % len(steps)].astype(np.int64))

    def __len__(self) -> int:
        return len(self.rank)

    @property
    def following(self) -> Int64:
        """The row of the rank's next step; NONE behind its last."""
        found = np.arange(1, len(self) + 1)
        found[np.append(self.rank[1:] != self.rank[:-1], True)] = NONE
        return found


def numbered(values: Int32 | Int64) -> tuple[Int64, Int64]:
    """The values that there are, ascending, and of each row which it has: `np.unique` of a few
    numbers that lie close together."""
    found = Distinct.of(values)
    return found.numbers, found.places(values)


def firsts(rows: Int64, ops: Int64, count: int) -> Int64:
    """By row: the first of the ops that belong to it, or NONE. `rows` says to which each does."""
    return lasts(rows[::-1], ops[::-1], count)


def lasts(rows: Int64, ops: Int64, count: int) -> Int64:
    """By row: the last of the ops that belong to it, or NONE."""
    found = np.full(count, NONE, np.int64)
    found[rows] = ops
    return found


def largest(rows: Int64, values: Int64, count: int) -> Int64:
    """By row: where its largest value stands, the last of equal ones; NONE without any."""
    most = np.full(count, np.iinfo(np.int64).min)
    np.maximum.at(most, rows, values)
    at = np.flatnonzero(values == most[rows])
    return lasts(rows[at], at, count)


def totals(rows: Int64, values: Int64, count: int) -> Int64:
    """By row: the sum of its values, exact below 2^53."""
    return np.bincount(rows, values, count).astype(np.int64)
