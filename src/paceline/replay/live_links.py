"""Edits of graphs in recorded order: links kept in step with the native incremental engine.

The engine knows one link from op to op where there is a dependency, or where one follows the other
on a RECORDED lane, or both. This file knows which of the two holds.
"""

from bisect import bisect_right
from typing import Any

import numpy as np

from paceline.errors import GraphError
from paceline.graph import DepKind, Graph
from paceline.graph.graph import Int32, Int64
from paceline.replay.columns import Columns
from paceline.replay.live_follower import NewOp, Undoable


class LiveLinks(Undoable):
    """The `Follower` over the core's `Live`: dependencies and lane orders as they are now."""

    def __init__(self, graph: Graph, core: Any) -> None:
        super().__init__(core)
        self._graph, self._last = graph, len(graph) - 1
        self._revisited = 0  # since the last settling
        self._deps: dict[int, set[int]] = {}  # of ops that were asked for
        self._lanes: dict[int, list[int]] = {}  # ops in order, of lanes that were asked for
        self._lane_of: dict[int, int] = {}  # of inserted ops

    def settle(self) -> int:
        revisited, self._revisited = self._revisited + int(self._core.settle()), 0
        return revisited

    def columns(self) -> Columns:
        ready, start, end = self._core.times()
        return Columns(ready, start, end, None, None, np.zeros((0, 2), np.int32))

    def resize(self, ops: Int32, dur_ns: Int64) -> None:
        self._revisited += int(self._core.resize(ops, dur_ns))

    def prioritise(self, ops: Int32, priority: Int32) -> None:
        """Lanes in recorded order do not look at priorities."""

    def link(self, src: int, op: int, kind: DepKind) -> bool:
        self._link(src, op)
        return True

    def unlink(self, src: int, op: int) -> bool:
        if (src, op) not in self._bridges:
            self._unlink(src, op)
        return True

    def insert(self, op: NewOp) -> bool:
        place = self._last if op.place_after is None else op.place_after
        anchor = self._anchor.get(place, place)
        self._log.do(lambda: self._add(op, anchor), lambda: self._drop(op.id))
        self._line_up(op.id, op.lane)
        for src in op.after:
            self._link(src, op.id)
        for other in op.before:
            self._link(op.id, other)
        return True

    def remove(self, ops: list[int]) -> bool:
        for op in ops:
            self._remove(op)
        return True

    def _link(self, src: int, op: int) -> None:
        deps = self._deps_of(op)
        if src in deps:
            return
        if self._before(op) != src:
            self._connect(src, op)
        self._log.do(lambda: deps.add(src), lambda: deps.remove(src))

    def _unlink(self, src: int, op: int) -> None:
        deps = self._deps_of(op)
        self._log.do(lambda: deps.remove(src), lambda: deps.add(src))
        if self._before(op) != src:
            self._disconnect(src, op)

    def _add(self, op: NewOp, anchor: int) -> None:
        self._core.add(op.dur_ns)
        self._lane_of[op.id], self._anchor[op.id] = op.lane, anchor

    def _drop(self, op: int) -> None:
        self._core.drop()
        del self._lane_of[op], self._anchor[op]
        self._deps.pop(op, None)

    def _line_up(self, op: int, lane: int) -> None:
        """A new op takes its place on its lane."""
        order = self._lane(lane)
        keys = [self._anchor.get(other, other) for other in order]
        at = bisect_right(keys, self._anchor[op])
        previous = order[at - 1] if at else None
        following = order[at] if at < len(order) else None
        if previous is not None and following is not None:
            self._part(previous, following)
        self._log.do(lambda: order.insert(at, op), lambda: order.remove(op))
        if previous is not None:
            self._connect(previous, op)
        if following is not None:
            self._connect(op, following)

    def _remove(self, op: int) -> None:
        """Take an op's links and its place on the lane away; its followers take over its deps."""
        deps = sorted(self._deps_of(op))
        for follower in sorted(set(self._core.followers(op))):
            if op in self._deps_of(follower):
                self._unlink(op, follower)
                for src in deps:
                    self._bridges.add(src, follower)
                    self._link(src, follower)
        for src in deps:
            self._unlink(src, op)
        order = self._lane(self._lane_number(op))
        at = order.index(op)
        previous = order[at - 1] if at else None
        following = order[at + 1] if at + 1 < len(order) else None
        if previous is not None:
            self._disconnect(previous, op)
        if following is not None:
            self._disconnect(op, following)
        self._log.do(lambda: order.remove(op), lambda: order.insert(at, op))
        if previous is not None and following is not None:
            self._join(previous, following)

    def _part(self, previous: int, following: int) -> None:
        """They no longer follow each other on their lane."""
        if previous not in self._deps_of(following):
            self._disconnect(previous, following)

    def _join(self, previous: int, following: int) -> None:
        """They now follow each other on their lane."""
        if previous not in self._deps_of(following):
            self._connect(previous, following)

    def _connect(self, src: int, op: int) -> None:
        if not self._core.link(src, op):
            raise GraphError(
                f"op {op} cannot wait for op {src}, which waits for it already, by dependencies, "
                "lane order or an instance: the link would close a cycle"
            )
        self._log.made(lambda: self._core.unlink(src, op))

    def _disconnect(self, src: int, op: int) -> None:
        self._log.do(lambda: self._core.unlink(src, op), lambda: self._core.link(src, op))

    def _deps_of(self, op: int) -> set[int]:
        if op not in self._deps:
            inside = op < len(self._graph)
            self._deps[op] = set(self._graph.deps.of(op).tolist()) if inside else set()
        return self._deps[op]

    def _before(self, op: int) -> int | None:
        """The op before this one on its lane."""
        order = self._lane(self._lane_number(op))
        at = order.index(op)
        return order[at - 1] if at else None

    def _lane_number(self, op: int) -> int:
        inserted = self._lane_of.get(op)
        return int(self._graph.ops.lane[op]) if inserted is None else inserted

    def _lane(self, lane: int) -> list[int]:
        if lane not in self._lanes:
            self._lanes[lane] = np.flatnonzero(self._graph.ops.lane == lane).tolist()
        return self._lanes[lane]
