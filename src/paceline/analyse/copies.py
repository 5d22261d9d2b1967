"""Memory copies: what they move, how fast, and the bandwidth over time."""

from collections import defaultdict
from dataclasses import dataclass
from typing import Final

import numpy as np

from paceline.graph import OpKind
from paceline.replay import Timeline

POINTS: Final = 60


@dataclass(frozen=True)
class Copies:
    """Copies of one name on one rank."""

    rank: int
    name: str
    count: int
    size_bytes: int
    total_ns: int
    at_ns: tuple[int, ...]  # begins of equal stretches of the recorded time
    bytes_per_s: tuple[float, ...]  # while it moved, the mean of each stretch; 0 where nothing did

    @property
    def mean_bytes_per_s(self) -> float:
        """While bytes moved."""
        return self.size_bytes / (self.total_ns / 1e9) if self.total_ns else 0.0


def copies_of(timeline: Timeline) -> tuple[Copies, ...]:
    """What moves most first. Copies whose size the trace does not tell are left out."""
    ops = timeline.graph.ops
    rows = np.flatnonzero((ops.kind == OpKind.COPY) & (ops.size_bytes > 0))
    groups: dict[tuple[int, int], list[int]] = defaultdict(list)
    for row in rows.tolist():
        groups[int(ops.rank[row]), int(ops.name[row])].append(row)
    found = [_group(timeline, rank, name, members) for (rank, name), members in groups.items()]
    return tuple(sorted(found, key=lambda each: -each.size_bytes))


def _group(timeline: Timeline, rank: int, name: int, members: list[int]) -> Copies:
    graph, rows = timeline.graph, np.array(members)
    start, end = timeline.start_ns[rows], timeline.end_ns[rows]
    borders = np.linspace(0, max(timeline.step_ns, 1), POINTS + 1)
    inside = np.minimum(end[:, None], borders[1:]) - np.maximum(start[:, None], borders[:-1])
    inside = np.maximum(inside, 0.0)
    rate = graph.ops.size_bytes[rows] / np.maximum(end - start, 1)
    moved, busy = (inside * rate[:, None]).sum(axis=0), inside.sum(axis=0)
    per_s = np.where(busy > 0, 1e9 * moved / np.maximum(busy, 1), 0.0)
    return Copies(
        rank,
        graph.text(name),
        len(rows),
        int(graph.ops.size_bytes[rows].sum()),
        int((end - start).sum()),
        tuple(borders[:-1].astype(np.int64).tolist()),
        tuple(per_s.tolist()),
    )
