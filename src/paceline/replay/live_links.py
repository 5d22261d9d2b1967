"""The links of a graph under change, kept in step with the native incremental engine.

The engine knows one link from op to op where there is a dependency, or where one follows the other
on a RECORDED lane, or both. This file knows which of the two holds.
"""

from bisect import bisect_right
from collections.abc import Callable
from typing import Any

import numpy as np

from paceline.errors import ReplayError
from paceline.graph import Graph


class LiveLinks:
    """Dependencies and lane orders as they are now; every change can be undone."""

    def __init__(self, graph: Graph, core: Any) -> None:
        self._graph, self._core = graph, core
        self._deps: dict[int, set[int]] = {}  # of ops that were asked for
        self._lanes: dict[int, list[int]] = {}  # ops in order, of lanes that were asked for
        self._lane_of: dict[int, int] = {}  # of inserted ops
        self._anchor: dict[int, int] = {}  # of inserted ops: where they stand in id order
        self._log: list[Callable[[], object]] = []

    def mark(self) -> int:
        return len(self._log)

    def undo(self, to: int) -> None:
        while len(self._log) > to:
            self._log.pop()()

    def link(self, src: int, op: int) -> None:
        deps = self._deps_of(op)
        if src in deps:
            return
        if self._before(op) != src:
            self._connect(src, op)
        self._do(lambda: deps.add(src), lambda: deps.remove(src))

    def unlink(self, src: int, op: int) -> None:
        deps = self._deps_of(op)
        self._do(lambda: deps.remove(src), lambda: deps.add(src))
        if self._before(op) != src:
            self._disconnect(src, op)

    def insert(
        self, op: int, lane: int, dur_ns: int, anchor: int, after: list[int], before: list[int]
    ) -> None:
        """A new op on a lane, behind `anchor` in id order."""
        self._core.add(dur_ns)
        self._log.append(lambda: self._forget(op))
        self._lane_of[op] = lane
        self._anchor[op] = self._anchor.get(anchor, anchor)
        order = self._lane(lane)
        keys = [self._anchor.get(other, other) for other in order]
        at = bisect_right(keys, self._anchor[op])
        previous = order[at - 1] if at else None
        following = order[at] if at < len(order) else None
        if previous is not None and following is not None:
            self._part(previous, following)
        self._do(lambda: order.insert(at, op), lambda: order.remove(op))
        if previous is not None:
            self._connect(previous, op)
        if following is not None:
            self._connect(op, following)
        for src in after:
            self.link(src, op)
        for other in before:
            self.link(op, other)

    def remove(self, ops: list[int]) -> None:
        for op in ops:
            self._remove(op)

    def _remove(self, op: int) -> None:
        """Take an op's links and its place on the lane away; its followers take over its deps."""
        deps = sorted(self._deps_of(op))
        for follower in sorted(set(self._core.followers(op))):
            if op in self._deps_of(follower):
                self.unlink(op, follower)
                for src in deps:
                    self.link(src, follower)
        for src in deps:
            self.unlink(src, op)
        order = self._lane(self._lane_number(op))
        at = order.index(op)
        previous = order[at - 1] if at else None
        following = order[at + 1] if at + 1 < len(order) else None
        if previous is not None:
            self._disconnect(previous, op)
        if following is not None:
            self._disconnect(op, following)
        self._do(lambda: order.remove(op), lambda: order.insert(at, op))
        if previous is not None and following is not None:
            self._join(previous, following)

    def _forget(self, op: int) -> None:
        """An inserted op is no more."""
        self._core.drop()
        del self._lane_of[op], self._anchor[op]
        self._deps.pop(op, None)

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
            raise ReplayError(
                f"op {op} cannot wait for op {src}, which waits for it already, by dependencies, "
                "lane order or an instance: the link would close a cycle"
            )
        self._log.append(lambda: self._core.unlink(src, op))

    def _disconnect(self, src: int, op: int) -> None:
        self._core.unlink(src, op)
        self._log.append(lambda: self._core.link(src, op))

    def _do(self, change: Callable[[], object], undo: Callable[[], object]) -> None:
        change()
        self._log.append(undo)

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
