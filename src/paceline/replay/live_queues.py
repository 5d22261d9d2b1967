"""Edits of graphs that need events, in the words of the native incremental engine.

The engine knows dependencies and lanes apart, and what an op that comes or goes means for its lane.
What it cannot follow is a change of what a host call launches in a graph with drains, where being
launched means more than having to wait.
"""

from typing import Any

import numpy as np

from paceline.graph import DepKind, Graph, OpKind
from paceline.graph.graph import Bool, Int32, Int64
from paceline.replay.columns import Columns
from paceline.replay.contention import SORTS
from paceline.replay.live_follower import NewOp, Undoable


class LiveQueues(Undoable):
    """The `Follower` over the core's `LiveEvents`."""

    def __init__(self, graph: Graph, core: Any) -> None:
        super().__init__(core)
        self._launches, self._last = _launches(graph), len(graph) - 1

    def settle(self) -> int | None:
        return int(self._core.revisited) if self._core.settle() else None

    def columns(self) -> Columns:
        ready, start, end, previous, order, drained = self._core.columns()
        return Columns(ready, start, end, previous, order, drained.reshape(-1, 2))

    def resize(self, ops: Int32, dur_ns: Int64) -> None:
        self._core.resize(ops, dur_ns)

    def prioritise(self, ops: Int32, priority: Int32) -> None:
        self._core.prioritise(ops, priority)

    def link(self, src: int, op: int, kind: DepKind) -> bool:
        if self._launches is not None and kind is DepKind.LAUNCH:
            return False
        self._connect(src, op)
        return True

    def unlink(self, src: int, op: int) -> bool:
        if self._launched(src) and self._launched(op):
            return False
        if (src, op) not in self._bridges:
            self._disconnect(src, op)
        return True

    def insert(self, op: NewOp) -> bool:
        place = self._last if op.place_after is None else op.place_after
        anchor = self._anchor.get(place, place)
        self._log.do(lambda: self._add(op, anchor), lambda: self._drop(op))
        for src in op.after:
            self._connect(src, op.id)
        self._log.do(lambda: self._core.admit(op.id), lambda: self._core.withdraw(op.id))
        for other in op.before:
            self._connect(op.id, other)
        return True

    def remove(self, ops: list[int]) -> bool:
        if any(self._launched(op) for op in ops):
            return False
        for op in ops:
            self._remove(op)
        return True

    def _remove(self, op: int) -> None:
        """Its followers take over its dependencies; then it goes."""
        deps = self._core.deps(op).tolist()
        for follower in self._core.followers(op).tolist():
            for src in deps:
                self._bridges.add(src, follower)
                self._connect(src, follower)
            self._disconnect(op, follower)
        self._log.do(lambda: self._core.withdraw(op), lambda: self._core.admit(op))
        for src in deps:
            self._disconnect(src, op)

    def _add(self, op: NewOp, anchor: int) -> None:
        self._core.add(op.lane, anchor, op.dur_ns, int(SORTS[OpKind.COMPUTE]))
        self._anchor[op.id] = anchor

    def _drop(self, op: NewOp) -> None:
        self._core.drop()
        del self._anchor[op.id]

    def _connect(self, src: int, op: int) -> None:
        if src not in self._core.deps(op):
            self._log.do(lambda: self._core.link(src, op), lambda: self._core.unlink(src, op))

    def _disconnect(self, src: int, op: int) -> None:
        self._log.do(lambda: self._core.unlink(src, op), lambda: self._core.link(src, op))

    def _launched(self, op: int) -> bool:
        known = self._launches
        return known is not None and op < len(known) and bool(known[op])


def _launches(graph: Graph) -> Bool | None:
    """Ops that launch or are launched; None where nothing drains."""
    if not len(graph.drains.op):
        return None
    found, launch = np.zeros(len(graph), np.bool_), graph.deps.kind == DepKind.LAUNCH
    owner = np.repeat(np.arange(len(graph)), np.diff(graph.deps.ptr))
    found[owner[launch]] = found[graph.deps.src[launch]] = True
    return found
