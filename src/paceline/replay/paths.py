"""The critical path: the chain of ops that the length of the step hangs on, with reasons."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from paceline.graph import NONE, Graph, OpKind
from paceline.graph.graph import Int64

if TYPE_CHECKING:
    from paceline.replay.timeline import Timeline

_Key = TypeVar("_Key")


class Reason(Enum):
    """Why an op on the path did not start earlier."""

    FIRST = "first"  # nothing before it
    DEPENDENCY = "dependency"  # the op before it on the path is one that it waits for
    LANE = "lane"  # its lane was busy with the op before it on the path
    MEMBER = "member"  # the op before it on the path is the last member of its instance to arrive
    DRAIN = "drain"  # it drains the lane that the op before it on the path was on


@dataclass(frozen=True, eq=False)
class CriticalPath:
    """Ops from the first to the one that ends last. Their shares sum to the step exactly."""

    graph: Graph
    ops: Int64
    reasons: tuple[Reason, ...]
    share_ns: Int64  # 0 for an op that matters by its arrival alone: a member waited for

    @cached_property
    def by_kind(self) -> dict[str, int]:
        return self._shares([OpKind(k).name.lower() for k in self.graph.ops.kind[self.ops]])

    @cached_property
    def by_layer(self) -> dict[str, int]:
        return self._shares([self.graph.text(int(i)) for i in self.graph.ops.layer[self.ops]])

    @cached_property
    def by_rank(self) -> dict[int, int]:
        return self._shares(self.graph.ops.rank[self.ops].tolist())

    @cached_property
    def by_lane(self) -> dict[int, int]:
        """By row of the graph's lanes."""
        return self._shares(self.graph.ops.lane[self.ops].tolist())

    def _shares(self, keys: Sequence[_Key]) -> dict[_Key, int]:
        found: dict[_Key, int] = {}
        for key, share in zip(keys, self.share_ns.tolist()):
            found[key] = found.get(key, 0) + share
        return dict(sorted(found.items(), key=lambda item: -item[1]))


def critical_path(timeline: "Timeline") -> CriticalPath:
    """Walk back from the op that ends last (the lowest id where several do).

    Among several causes: the lowest dependency that ended last, before the lane.
    """
    op = int(np.argmax(timeline.end_ns))
    chain: list[int] = []
    reasons: list[Reason] = []
    share: list[int] = []
    arrival = False  # whether `op` matters by its arrival alone
    while True:
        before, reason = _arrival_cause(timeline, op) if arrival else _start_cause(timeline, op)
        chain.append(op)
        reasons.append(reason)
        share.append(0 if arrival else int(timeline.end_ns[op] - timeline.start_ns[op]))
        if before == NONE:
            break
        op, arrival = before, reason is Reason.MEMBER
    columns = (np.array(chain[::-1], np.int64), tuple(reasons[::-1]), np.array(share[::-1]))
    return CriticalPath(timeline.graph, *columns)


def _start_cause(timeline: "Timeline", op: int) -> tuple[int, Reason]:
    """What let `op` start when it did."""
    if timeline.start_ns[op] == timeline.ready_ns[op]:
        return _arrival_cause(timeline, op)
    instance = timeline.graph.ops.instance[op]
    if instance != NONE:
        members = timeline.members_of(int(instance))
        return int(members[np.argmax(timeline.ready_ns[members])]), Reason.MEMBER
    pairs = timeline.columns.drained
    others = pairs[pairs[:, 0] == op, 1]
    return int(others[np.argmax(timeline.end_ns[others])]), Reason.DRAIN


def _arrival_cause(timeline: "Timeline", op: int) -> tuple[int, Reason]:
    """What let `op` take its lane when it did."""
    ready = timeline.ready_ns[op]
    if ready == 0:
        return NONE, Reason.FIRST
    deps = timeline.graph.deps.of(op)
    last = deps[timeline.end_ns[deps] == ready]
    if len(last):
        return int(last.min()), Reason.DEPENDENCY
    return int(timeline.previous[op]), Reason.LANE
