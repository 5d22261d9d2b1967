"""Steps on a timeline of several: how long each took, and how they spread."""

from dataclasses import dataclass

import numpy as np

from paceline.graph import NONE, OpKind
from paceline.graph.graph import Int64
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
    numbers = np.unique(ops.step[ops.step != NONE])
    total, ranks = np.zeros(len(numbers), np.int64), timeline.graph.ranks
    for rank in ranks:
        mine = (ops.rank == rank) & (ops.step != NONE)
        begins = _begins(timeline, np.flatnonzero(mine), numbers)
        ends = np.append(begins[1:], timeline.end_ns[mine].max())
        total += ends - begins
    return StepTimes(tuple(numbers.tolist()), tuple((total // len(ranks)).tolist()))


def _begins(timeline: Timeline, rows: Int64, numbers: Int64) -> Int64:
    """When each step begins on the rank of these ops."""
    ops = timeline.graph.ops
    marks = rows[ops.kind[rows] == OpKind.MARKER]
    marked = {int(step): int(at) for step, at in zip(ops.step[marks], timeline.start_ns[marks])}
    first = np.full(len(numbers), np.iinfo(np.int64).max, np.int64)
    np.minimum.at(first, np.searchsorted(numbers, ops.step[rows]), timeline.ready_ns[rows])
    begins = [marked.get(int(number), int(at)) for number, at in zip(numbers, first)]
    return np.maximum.accumulate(np.array(begins, np.int64))
