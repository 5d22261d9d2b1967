"""`BucketRows`: the new buckets of all ranks and steps."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np

from paceline.graph.gradients import not_told
from paceline.graph.graph import Int64
from paceline.graph.kinds import NONE
from paceline.graph.rebucket.source import Source

Buckets = Sequence[Sequence[int]]  # parameters of each, in the order of hand-over


@dataclass(frozen=True, eq=False)
class BucketRows:
    """The new buckets of all ranks' steps, one row each, in the order of `RankSteps`."""

    step: Int64  # row of `RankSteps`
    place: Int64  # in the order of hand-over
    size_bytes: Int64
    last: Int64  # the last gradient of it and of those before it
    fed: Int64  # of each gradient, step after step: its bucket's row
    by: Int64  # and the op that readies it

    def turn(self, chosen: Int64, stage: int, part: int) -> Int64:
        """Where new ops stand: a step's exchange before its copies, then bucket by bucket."""
        return ((2 * self.step[chosen] + stage) * len(self.step) + chosen) * 2 + part


def rows_of(source: Source, buckets: Mapping[int, Buckets]) -> BucketRows:
    parts = [
        _of_group(source, np.flatnonzero(source.group == each), cut)
        for each, cut in buckets.items()
    ]
    begins = np.cumsum([0, *(len(part.step) for part in parts)])
    step = np.concatenate([part.step for part in parts])
    order = np.argsort(step, kind="stable")
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    fed = np.concatenate([part.fed + begin for part, begin in zip(parts, begins)])
    return BucketRows(
        step[order],
        np.concatenate([part.place for part in parts])[order],
        np.concatenate([part.size_bytes for part in parts])[order],
        np.concatenate([part.last for part in parts])[order],
        place[fed],
        np.concatenate([part.by for part in parts]),
    )


def _of_group(source: Source, steps: Int64, cut: Buckets) -> BucketRows:
    """Of one group's ranks."""
    held = np.array(list(chain.from_iterable(cut)), np.int64)
    counts = np.array([len(bucket) for bucket in cut])
    begins = np.cumsum(counts) - counts
    ready = source.ready[steps][:, held]
    if (ready == NONE).any():
        raise not_told()
    last = np.maximum.accumulate(np.maximum.reduceat(ready, begins, axis=1), axis=1)
    fed = np.arange(len(steps))[:, None] * len(cut) + np.repeat(np.arange(len(cut)), counts)
    return BucketRows(
        np.repeat(steps, len(cut)),
        np.tile(np.arange(len(cut)), len(steps)),
        np.tile(np.add.reduceat(source.size_bytes[held], begins), len(steps)),
        last.reshape(-1),
        fed.reshape(-1),
        ready.reshape(-1),
    )
