"""A run too large for one file: spans of many ranks, as a timeline would have them.

Each rank has a lane of kernels of some microseconds with small gaps, now and then a long wait, and
a lane of collectives that start together on all ranks. Lengths vary by rank, as recorded ones do.
"""

from dataclasses import dataclass

import numpy as np

from paceline.graph import OpKind
from paceline.report.page.levels import WAITING, Spans


@dataclass(frozen=True)
class LargeRun:
    """How large."""

    ranks: int = 1024
    kernels: int = 57_000  # of each rank
    collectives: int = 1_600

    @property
    def events(self) -> int:
        return self.ranks * (self.kernels + self.collectives)


def spans_of_run(run: LargeRun, seed: int = 0) -> tuple[Spans, int]:
    """The spans, and the run's length in ns."""
    random = np.random.default_rng(seed)
    typical = random.lognormal(np.log(6_000), 1.0, run.kernels)
    each = run.kernels + run.collectives
    lane = np.repeat(
        np.arange(2 * run.ranks, dtype=np.int32), [run.kernels, run.collectives] * run.ranks
    )
    kind = np.empty(run.events, np.uint8)
    start, end = np.empty(run.events, np.int64), np.empty(run.events, np.int64)
    length = typical.sum() * 1.25
    begins = np.linspace(0, 0.97 * length, run.collectives)
    for rank in range(run.ranks):
        at = slice(rank * each, rank * each + run.kernels)
        lasts = typical * random.normal(1, 0.05, run.kernels).clip(0.5)
        gaps = random.exponential(0.2, run.kernels) * typical
        ends = np.cumsum(lasts + gaps)
        end[at] = ends.astype(np.int64)
        start[at] = np.maximum((ends - lasts).astype(np.int64), np.roll(end[at], 1))
        start[rank * each] = 0
        kind[at] = np.where(random.random(run.kernels) < 0.02, WAITING, OpKind.COMPUTE)
        at = slice(rank * each + run.kernels, (rank + 1) * each)
        start[at] = begins.astype(np.int64)
        end[at] = start[at] + (
            random.uniform(0.2, 0.9, run.collectives) * length / run.collectives
        ).astype(np.int64)
        kind[at] = OpKind.COLLECTIVE
    return Spans(2 * run.ranks, lane, kind, start, end), int(end.max())
