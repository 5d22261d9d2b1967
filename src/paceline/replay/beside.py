"""Kernels that run beside communication, against the same kernels that run alone."""

from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from paceline.graph.graph import Bool, Int64
from paceline.replay.contention import COMMUNICATES, sorts
from paceline.replay.timeline import Timeline

Float = np.ndarray[tuple[int], np.dtype[np.float64]]

MOSTLY: Final = 0.9
"""A kernel covered for a larger part counts as beside communication; for a smaller as neither."""


@dataclass(frozen=True)
class Beside:
    """Kernels that run beside communication, against the same kernels that run alone."""

    factor: float  # by which they take longer; 0 where none can be compared
    kernels: int  # compared


def beside(timeline: Timeline, rows: Int64) -> Beside:
    """Of one name and work on one rank, those that communication covers for most of their time,
    and those that it does not touch; what covers less is left out."""
    ops = timeline.graph.ops
    key = np.stack([ops.rank[rows], ops.name[rows], ops.work[rows]])
    _, group = np.unique(key, axis=1, return_inverse=True)
    group, dur = group.reshape(-1), (timeline.end_ns - timeline.start_ns)[rows]
    covered = covered_ns(timeline, rows) / np.maximum(dur, 1)
    among, alone = (_Means.of(group, dur, each) for each in (covered > MOSTLY, covered == 0))
    both = (among.count > 0) & (alone.count > 0)
    if not both.any():
        return Beside(0.0, 0)
    weight = among.count[both]
    longer = (weight * among.mean_ns[both]).sum() / (weight * alone.mean_ns[both]).sum()
    return Beside(float(longer), int(weight.sum()))


def covered_ns(timeline: Timeline, rows: Int64, by: int = COMMUNICATES) -> Float:
    """Nanoseconds of each op during which any op of that sort runs on its device."""
    graph, start, end = timeline.graph, timeline.start_ns, timeline.end_ns
    device = graph.lanes.device[graph.ops.lane]
    talks = np.flatnonzero(sorts(graph) == by)
    covered = np.zeros(len(rows))
    for each in np.unique(device[talks]):
        mine = np.flatnonzero(device[rows] == each)
        kernels, others = rows[mine], talks[device[talks] == each]
        covered[mine] = _overlap((start[others], end[others]), (start[kernels], end[kernels]))
    return covered


@dataclass(frozen=True, eq=False)
class _Means:
    """By group of like kernels."""

    count: Int64
    mean_ns: Float

    @staticmethod
    def of(group: Any, dur_ns: Int64, chosen: Bool) -> "_Means":
        groups = int(group.max(initial=-1)) + 1
        count = np.bincount(group[chosen], minlength=groups)
        whole = np.bincount(group[chosen], dur_ns[chosen], groups)
        return _Means(count, whole / np.maximum(count, 1))


def _overlap(talks: tuple[Int64, Int64], kernels: tuple[Int64, Int64]) -> Float:
    """Nanoseconds of each kernel during which any of these runs."""
    order = np.argsort(talks[0], kind="stable")
    start, end = talks[0][order], np.maximum.accumulate(talks[1][order])
    start = np.maximum(start, np.concatenate([start[:1], end[:-1]]))
    moments = np.stack([start, np.maximum(start, end)], axis=1).reshape(-1)
    passed = np.cumsum(np.diff(moments, prepend=moments[0]) * (np.arange(len(moments)) % 2))
    covered: Float = np.interp(kernels[1], moments, passed) - np.interp(kernels[0], moments, passed)
    return covered
