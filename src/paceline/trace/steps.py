"""Which part of a recording is which training step."""

from collections.abc import Sequence
from itertools import dropwhile, takewhile

import numpy as np

from paceline.record.sidecar import Mode, Step
from paceline.trace.trace import Int64, Steps, select
from paceline.trace.view import RankView


def steps_of(view: RankView) -> tuple[Steps, tuple[str, ...]]:
    """Steps as the recorder counted them, as the profiler marked them, or as the optimizer ended
    them, or the whole trace as one; and a note for anything but the first two."""
    recorded = usable(view.sidecar.of(Step)) if view.sidecar else []
    if recorded:
        table = np.array([(s.index, s.begin_ns, s.end_ns) for s in recorded], np.int64).T
        return Steps(*table), ()
    if len(view.trace.steps):
        return view.trace.steps, ()
    ends = _optimizer_ends(view)
    if len(ends) > 1:
        number = np.arange(1, len(ends), dtype=np.int64)
        note = "no step marks: steps are taken to end with the optimizer's calls"
        return Steps(number, ends[:-1], ends[1:], inferred=True), (note,)
    whole = np.array([view.origin_ns]), np.array([view.last_ns])
    note = "no step marks and no optimizer calls: the whole trace is taken as one step"
    return Steps(np.zeros(1, np.int64), *whole, inferred=True), (note,)


def usable(steps: Sequence[Step]) -> list[Step]:
    """Recorded steps before a clock was set or the machine slept, in one of them or between them:
    later stamps of the recorder and of the profiler lie apart. All, where that happened in the
    first."""
    since = list(dropwhile(lambda step: step.mode is not Mode.RECORDED, steps))
    before = list(takewhile(lambda step: step.steady, since)) or since
    return [step for step in before if step.mode is Mode.RECORDED]


def common_steps(steps: list[Steps]) -> tuple[list[Steps], tuple[str, ...]]:
    """The steps that every rank recorded, and a note of those that only some did."""
    shared = set.intersection(*(set(s.number.tolist()) for s in steps))
    seen = set.union(*(set(s.number.tolist()) for s in steps))
    if not shared:
        return [], ()
    kept = [select(s, np.isin(s.number, sorted(shared))) for s in steps]
    left = sorted(seen - shared)
    notes = (f"steps {left} were not recorded on every rank and are left out",) if left else ()
    return kept, notes


def _optimizer_ends(view: RankView) -> Int64:
    """Ends of the last optimizer call of each step: those after which no other call follows before
    the next backward op."""
    events = view.trace.events
    calls = np.flatnonzero(view.names_with("Optimizer.step#") & view.is_host)
    ends = np.sort(events.end_ns[calls])
    backward = np.sort(events.start_ns[events.backward])
    if not len(backward) or len(ends) < 2:
        return ends
    between = np.diff(np.searchsorted(backward, ends))
    kept: Int64 = ends[np.append(between > 0, True)]
    return kept
