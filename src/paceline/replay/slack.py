"""Slack: how much later each op could end without making the step longer.

Lane orders and what draining ops wait for are held as they are on the timeline.
"""

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from paceline.engine import replaying
from paceline.graph import NONE
from paceline.graph.graph import Int64

if TYPE_CHECKING:
    from paceline.replay.timeline import Timeline


def slack(timeline: "Timeline") -> Int64:
    """In ns, one an op; 0 all along the critical path."""
    core = replaying()
    if core is None:
        return slack_reference(timeline)
    found: Int64 = core.slack(*replayed(timeline))
    return found


def replayed(timeline: "Timeline") -> tuple[NDArray[Any], ...]:
    """What a core asks of a graph and its timeline to look back along it."""
    graph, columns = timeline.graph, timeline.columns
    arrays = (
        timeline.order,
        graph.deps.ptr,
        graph.deps.src,
        timeline.previous,
        graph.ops.instance,
        columns.drained.ravel(),
        timeline.start_ns,
        timeline.end_ns,
    )
    return tuple(map(np.ascontiguousarray, arrays))


def slack_reference(timeline: "Timeline") -> Int64:
    """The same in plain Python: one pass backwards, each op bounding what it waited for."""
    graph, columns = timeline.graph, timeline.columns
    late = [timeline.step_ns] * len(graph)  # latest end of each op
    work = (timeline.end_ns - timeline.start_ns).tolist()
    previous, instance = timeline.previous.tolist(), graph.ops.instance.tolist()
    drained: dict[int, list[int]] = {}
    for op, other in columns.drained.tolist():
        drained.setdefault(op, []).append(other)
    unseen: dict[int, set[int]] = {}
    for op in reversed(timeline.order.tolist()):
        members = [op]
        if instance[op] != NONE:  # bounded together, once all members' latest ends are known
            members = timeline.members_of(instance[op]).tolist()
            left = unseen.setdefault(instance[op], set(members))
            left.discard(op)
            if left:
                continue
        latest_start = min(late[member] - work[member] for member in members)
        for member in members:
            waits_for = [*graph.deps.of(member).tolist(), *drained.get(member, ())]
            if previous[member] != NONE:
                waits_for.append(previous[member])
            for other in waits_for:
                late[other] = min(late[other], latest_start)
    return np.array(late, np.int64) - timeline.end_ns
