"""Where a mean worker's step goes, by class of work."""

import numpy as np

from paceline.graph import COMMUNICATION, LaneKind, Phase
from paceline.graph.distinct import Distinct, blocks, runs
from paceline.graph.graph import Bool, Int64
from paceline.graph.membership import TALKS
from paceline.graph.scaled import works
from paceline.predict.errors import PredictError
from paceline.replay import Timeline

WORK_CLASSES = ("forward", "backward", "update", "data")
_PHASES = (Phase.FORWARD, Phase.BACKWARD, Phase.UPDATE, Phase.DATA)


def by_class(timeline: Timeline) -> dict[str, int]:
    """In ns: work by phase as long as it took, communication (hidden or not) beside it, and what of
    the step none of the work fills. Of a device's work the kernels count, not their launches. Of
    a job that repeats itself every few steps it is the mean step."""
    graph, count = timeline.graph, len(timeline.graph.ranks) * timeline.graph.facts.period
    last = graph.ops.step > graph.ops.step.max() - graph.facts.period
    took = (timeline.end_ns - timeline.start_ns) * last
    busy = works(graph) & _on_workhorse(timeline)
    found = {
        phase.name.lower(): int(took[(graph.ops.phase == phase) & busy].sum()) // count
        for phase in _PHASES
    }
    talks = np.isin(graph.ops.kind, COMMUNICATION)
    found["communication"] = int(took[talks].sum()) // count
    found["exposed"] = max(0, step_ns(timeline) - sum(found[k] for k in WORK_CLASSES))
    return found


def _on_workhorse(timeline: Timeline) -> Bool:
    """Ops on devices' streams where the graph has any, else on threads."""
    kinds = timeline.graph.lanes.kind
    wanted = LaneKind.STREAM if (kinds == LaneKind.STREAM).any() else LaneKind.THREAD
    return np.asarray(kinds[timeline.graph.ops.lane] == wanted)


def step_ns(timeline: Timeline) -> int:
    """A step of several, from border to border: the first begins with all workers at once. Where
    the job repeats itself by the period, the mean over whole periods but the first. There work
    ends a step: an exchange may be under way beyond it, the last one with nothing beside it."""
    if timeline.graph.facts.steps_overlap:
        return _between_updates_ns(timeline)
    column, kinds = timeline.graph.ops.step, timeline.graph.ops.kind
    periods = timeline.graph.facts.period > 1
    steps = Distinct.of(column)
    last = np.zeros(len(steps), np.int64)
    for rows in blocks(len(column)):
        begins = runs(column[rows])
        counted = np.where(periods & TALKS[kinds[rows]], 0, timeline.end_ns[rows])
        ends = np.maximum.reduceat(counted, begins)
        np.maximum.at(last, steps.places(column[rows][begins]), ends)
    return between_ends_ns(last, timeline.graph.facts.period)


def between_ends_ns(last: Int64, period: int) -> int:
    """A step of several by when each ends."""
    ends = np.maximum.reduceat(last, np.arange(0, len(last), period)).tolist()
    if len(ends) == 1:
        return int(ends[0]) // min(period, len(last))
    return int(ends[-1] - ends[0]) // (len(ends) - 1) // period


def _between_updates_ns(timeline: Timeline) -> int:
    """From the first update of the first rank to the last but one, which has all of a step beside
    it: the last step has no forwards of a next one."""
    ops = timeline.graph.ops
    updates = (ops.phase == Phase.UPDATE) & (ops.rank == min(timeline.graph.ranks))
    ends = timeline.end_ns[updates][np.argsort(ops.step[updates])]
    if len(ends) < 3:
        raise PredictError(
            f"steps that overlap are timed between updates, and the graph has {len(ends)} of them "
            "on its first rank; draw 3 steps or more"
        )
    return round(float(ends[-2] - ends[0]) / (len(ends) - 2))
