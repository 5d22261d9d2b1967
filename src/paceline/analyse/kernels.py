"""How long kernels take, across ranks: the same kernel, each rank's sum, and who is slowest.

Without a device the operators that compute are the kernels. A collective's waiting for its members
counts apart, so that a rank that waits does not look slow.
"""

from dataclasses import dataclass

import numpy as np

from paceline.analyse.lanes import working_lanes
from paceline.graph import COMMUNICATION, OpKind
from paceline.replay import Timeline


@dataclass(frozen=True)
class Kernel:
    """One name on all ranks; times in ns over all recorded steps."""

    name: str
    communicates: bool
    count: int
    total_ns: int
    least_ns: int
    most_ns: int
    by_rank_ns: dict[int, int]
    waited_ns: int  # arrived and waited for members

    @property
    def imbalance(self) -> float:
        """By how much the slowest rank's sum lies above the mean of the ranks, as a share."""
        mean = sum(self.by_rank_ns.values()) / len(self.by_rank_ns)
        return max(self.by_rank_ns.values()) / mean - 1 if mean else 0.0


def kernels_of(timeline: Timeline) -> tuple[Kernel, ...]:
    """What takes most time first."""
    graph, ops = timeline.graph, timeline.graph.ops
    works = np.isin(ops.lane, working_lanes(graph))
    works &= np.isin(ops.kind, (OpKind.COMPUTE, OpKind.COPY))
    rows = np.flatnonzero(works | np.isin(ops.kind, COMMUNICATION))
    lasts = (timeline.end_ns - timeline.start_ns)[rows]
    waited = (timeline.start_ns - timeline.ready_ns)[rows]
    order = np.argsort(ops.name[rows], kind="stable")
    parts = np.split(order, np.flatnonzero(np.diff(ops.name[rows][order])) + 1) if len(rows) else []
    found = []
    for part in parts:
        rank = ops.rank[rows[part]]
        sums = {int(r): int(lasts[part][rank == r].sum()) for r in np.unique(rank)}
        first = rows[part[0]]
        found.append(
            Kernel(
                graph.text(int(ops.name[first])),
                bool(np.isin(ops.kind[first], COMMUNICATION)),
                len(part),
                int(lasts[part].sum()),
                int(lasts[part].min()),
                int(lasts[part].max()),
                sums,
                int(waited[part].sum()),
            )
        )
    return tuple(sorted(found, key=lambda kernel: -kernel.total_ns))
