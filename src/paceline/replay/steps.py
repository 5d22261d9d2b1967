"""Steps on a timeline of several: how long each took, and how they spread."""

from dataclasses import dataclass

import numpy as np

from paceline.graph import NONE, OpKind
from paceline.graph.distinct import Distinct, blocks, runs
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
    steps, ranks = Distinct.of(timeline.graph.ops.step), Distinct.of(timeline.graph.ops.rank)
    first, last = _borders(timeline, steps, ranks)
    told = steps.numbers != NONE
    there = (last[:, told] != NONE).any(axis=1)
    begins = np.maximum.accumulate(first[there][:, told], axis=1)
    ends = last[there][:, told].max(axis=1, initial=0)
    lasted = np.diff(begins, axis=1, append=ends[:, None])
    total = lasted.sum(axis=0) // max(1, len(begins))
    return StepTimes(tuple(steps.numbers[told].tolist()), tuple(total.tolist()))


def _borders(timeline: Timeline, steps: Distinct, ranks: Distinct) -> tuple[Int64, Int64]:
    """When each step begins and when its last op ends, by rank and step; NONE without any op."""
    ops, shape = timeline.graph.ops, (len(ranks), len(steps))
    first, last = np.full(shape, np.iinfo(np.int64).max), np.full(shape, NONE, np.int64)
    for rows in blocks(len(ops)):
        rank, step = ops.rank[rows], ops.step[rows]
        begins = runs(rank, step)
        at = ranks.places(rank[begins]), steps.places(step[begins])
        np.minimum.at(first, at, np.minimum.reduceat(timeline.ready_ns[rows], begins))
        np.maximum.at(last, at, np.maximum.reduceat(timeline.end_ns[rows], begins))
    marks = np.flatnonzero(ops.kind == OpKind.MARKER)
    first[ranks.places(ops.rank[marks]), steps.places(ops.step[marks])] = timeline.start_ns[marks]
    return first, last
