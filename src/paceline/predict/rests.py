"""Work that began after a rest of its thread: which it is, and how much longer it takes."""

import numpy as np

from paceline.cluster.machine import Rests
from paceline.graph import OpKind
from paceline.graph.graph import Bool, Int64
from paceline.replay import Timeline


def after_rests_ns(timeline: Timeline, rests: Rests) -> Int64:
    """Durations with work that began after a rest taking longer."""
    late = after_rests(timeline, rests.least_ns, rests.warm_ns / rests.factor)
    longer = np.rint(timeline.dur_ns * rests.factor).astype(np.int64)
    return np.where(late, longer, timeline.dur_ns)


def after_rests(timeline: Timeline, least_ns: float, warm_ns: float) -> Bool:
    """Work that its lane began after a rest, or before it had worked for long enough since."""
    ops = timeline.graph.ops
    found = np.zeros(len(timeline.graph), np.bool_)
    works = np.flatnonzero((ops.kind == OpKind.COMPUTE) & (timeline.dur_ns > 0))
    works = works[np.argsort(ops.lane[works], kind="stable")]
    lane, start, end = ops.lane[works], timeline.start_ns[works], timeline.end_ns[works]
    fresh = np.append(True, lane[1:] != lane[:-1])[: len(works)]
    rest = np.append(False, start[1:] - end[:-1] >= least_ns)[: len(works)] & ~fresh
    since = _worked_since(timeline.dur_ns[works], rest | fresh)
    rested = np.maximum.accumulate(np.where(rest | fresh, np.arange(len(works)), 0))
    found[works] = rest[rested] & (rest | (since < warm_ns))
    return found


def _worked_since(dur_ns: Int64, begins: Bool) -> Int64:
    """How much work lies before each op since the last that begins a row."""
    before = np.cumsum(dur_ns) - dur_ns
    first = np.maximum.accumulate(np.where(begins, np.arange(len(dur_ns)), 0))
    return before - before[first]
