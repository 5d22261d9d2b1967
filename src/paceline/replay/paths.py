"""The critical path: the chain of ops that the length of the step hangs on, with reasons."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from paceline.engine import replaying
from paceline.graph import NONE, Graph, OpKind
from paceline.graph.graph import Bool, Int64
from paceline.replay.slack import replayed

if TYPE_CHECKING:
    from paceline.replay.timeline import Timeline

_Key = TypeVar("_Key")


class Reason(Enum):
    """Why an op on the path did not start earlier; native code numbers them in this order."""

    FIRST = "first"  # nothing before it
    DEPENDENCY = "dependency"  # the op before it on the path is one that it waits for
    LANE = "lane"  # its lane was busy with the op before it on the path
    MEMBER = "member"  # the op before it on the path is the last member of its instance to arrive
    DRAIN = "drain"  # it drains the lane that the op before it on the path was on


_REASONS = tuple(Reason)


@dataclass(frozen=True, eq=False)
class CriticalPath:
    """Ops from the first to the one that ends last. Their shares sum to the step exactly."""

    graph: Graph
    ops: Int64
    reasons: tuple[Reason, ...]
    share_ns: Int64  # 0 for an op that matters by its arrival alone: a member waited for

    @cached_property
    def by_kind(self) -> dict[str, int]:
        return self._shares(self.graph.ops.kind, lambda kind: OpKind(kind).name.lower())

    @cached_property
    def by_layer(self) -> dict[str, int]:
        return self._shares(self.graph.ops.layer, self.graph.text)

    @cached_property
    def by_rank(self) -> dict[int, int]:
        return self._shares(self.graph.ops.rank, int)

    @cached_property
    def by_lane(self) -> dict[int, int]:
        """By row of the graph's lanes."""
        return self._shares(self.graph.ops.lane, int)

    def _shares(self, column: NDArray[Any], key_of: Callable[[int], _Key]) -> dict[_Key, int]:
        """By what a column of the graph's ops says, most first, of equal ones the earliest."""
        numbers, first, row = np.unique(column[self.ops], return_index=True, return_inverse=True)
        sums = np.zeros(len(numbers), np.int64)
        np.add.at(sums, row, self.share_ns)
        found: dict[_Key, int] = {}
        for at in np.argsort(first).tolist():
            key = key_of(int(numbers[at]))
            found[key] = found.get(key, 0) + int(sums[at])
        return dict(sorted(found.items(), key=lambda item: -item[1]))


def critical_path(timeline: "Timeline", among: Bool | None = None) -> CriticalPath:
    """Walk back from the op that ends last (the lowest id where several do); `among` some that wait
    for none of the others.

    Among several causes: the lowest dependency that ended last, before the lane.
    """
    core = replaying()
    if core is None:
        return critical_path_reference(timeline, among)
    *asked, _ = replayed(timeline)
    ready_ns = np.ascontiguousarray(timeline.ready_ns)
    ops, numbers = core.critical_path(*asked, _ends(timeline, among), ready_ns)
    return _path(timeline, ops[::-1].astype(np.int64), numbers[::-1].tolist())


def _ends(timeline: "Timeline", among: Bool | None) -> Int64:
    """When ops end; of others than are asked for, before all of them."""
    ends = np.ascontiguousarray(timeline.end_ns)
    return ends if among is None else np.where(among, ends, -1)


def critical_path_reference(timeline: "Timeline", among: Bool | None = None) -> CriticalPath:
    """The same in plain Python."""
    op = int(np.argmax(_ends(timeline, among)))
    chain: list[int] = []
    reasons: list[int] = []
    arrival = False  # whether `op` matters by its arrival alone
    while op != NONE:
        before, reason = _arrival_cause(timeline, op) if arrival else _start_cause(timeline, op)
        chain.append(op)
        reasons.append(_REASONS.index(reason))
        op, arrival = before, reason is Reason.MEMBER
    return _path(timeline, np.array(chain[::-1], np.int64), reasons[::-1])


def _path(timeline: "Timeline", ops: Int64, reasons: list[int]) -> CriticalPath:
    """With what each op contributes; reasons by their numbers."""
    waited_for = np.append(np.array(reasons[1:], np.int64) == _REASONS.index(Reason.MEMBER), False)
    lasts = timeline.end_ns[ops] - timeline.start_ns[ops]
    told = tuple(map(_REASONS.__getitem__, reasons))
    return CriticalPath(timeline.graph, ops, told, np.where(waited_for, 0, lasts))


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
