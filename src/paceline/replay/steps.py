"""Steps on a timeline of several: how long each took, and how they spread."""

from dataclasses import dataclass

import numpy as np

from paceline.graph import NONE, OpKind
from paceline.graph.graph import Int64
from paceline.graph.rank_steps import numbered
from paceline.replay.timeline import Timeline


@dataclass(frozen=True)
class StepTimes:
    """One row a recorded step: how long it lasted, on the mean of the ranks."""

    number: tuple[int, ...]
    lasted_ns: tuple[int, ...]

    @property
    def median_ns(self) -> float:
        return float(np.median(self.lasted_ns))

    @property
    def spread(self) -> float:
        """From the 10th to the 90th percentile, over the median."""
        low, high = np.percentile(self.lasted_ns, [10, 90])
        return float((high - low) / self.median_ns) if self.median_ns else 0.0


def step_times(timeline: Timeline) -> StepTimes:
    """Each rank's step runs from its mark to the next one's; without marks, from its first op."""
    ops = timeline.graph.ops
    rows = np.flatnonzero(ops.step != NONE)
    numbers, step = numbered(ops.step[rows])
    ranks, rank = numbered(ops.rank[rows])
    begins = _begins(timeline, rows, rank * len(numbers) + step, (len(ranks), len(numbers)))
    ends = np.zeros(len(ranks), np.int64)
    np.maximum.at(ends, rank, timeline.end_ns[rows])
    lasted = np.diff(begins, axis=1, append=ends[:, None])
    total = lasted.sum(axis=0) // max(1, len(ranks))
    return StepTimes(tuple(numbers.tolist()), tuple(total.tolist()))


def _begins(timeline: Timeline, rows: Int64, of_row: Int64, shape: tuple[int, int]) -> Int64:
    """When each step begins, by rank and step; `of_row` is the place of both in one."""
    first = np.full(shape[0] * shape[1], np.iinfo(np.int64).max, np.int64)
    np.minimum.at(first, of_row, timeline.ready_ns[rows])
    marks = np.flatnonzero(timeline.graph.ops.kind[rows] == OpKind.MARKER)
    first[of_row[marks]] = timeline.start_ns[rows[marks]]
    begins: Int64 = np.maximum.accumulate(first.reshape(shape), axis=1)
    return begins
