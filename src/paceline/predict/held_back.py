"""Work that takes as long as its threads were recorded to need for it, waiting for a core included.

A typical step is work alone, for on other cores a thread waits for another while, or not at all. A
job that stays where it was recorded waits there as it did: each worker's work takes longer by what
its own threads waited. Where workers have unequal shares of a core, that is what sets them apart.

Wrong where a change leaves the cores so little to do that the threads no longer wait.
"""

import numpy as np

from paceline.graph import Graph, LaneKind, OpKind
from paceline.graph.rank_steps import RankSteps
from paceline.graph.scaled import Factors, scaled, works


def held_back(step: Graph, recording: Graph) -> Graph:
    """The typical step of a recording on the cores that it had."""
    if not (recording.ops.kind == OpKind.CORE_WAIT).any():
        return step
    threads = step.lanes.kind[step.ops.lane] == LaneKind.THREAD
    return scaled(step, works(step) & threads, stretch(recording)[step.ops.rank])


def stretch(recording: Graph) -> Factors:
    """By rank: how many times as long as it ran work took, the median of the recorded steps."""
    ops, steps = recording.ops, RankSteps.of(recording)
    dur_ns = np.maximum(recording.ops.dur_ns, 0)
    threads = recording.lanes.kind[ops.lane] == LaneKind.THREAD
    ran, waited = (
        np.bincount(steps.of_op, np.where(rows & threads, dur_ns, 0), len(steps))
        for rows in (works(recording), ops.kind == OpKind.CORE_WAIT)
    )
    found = np.ones(recording.world_size)
    for rank in recording.ranks:
        mine = (steps.rank == rank) & (ran > 0)
        if mine.any():
            found[rank] += np.median(waited[mine] / ran[mine])
    return found
