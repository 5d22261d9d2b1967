"""`Live`: a replay that stays in memory and follows edits, exactly and fast.

live = Live(graph)
live.scale(select(graph, "tensor=tensor 7,kind=transfer"), 0.5)
live.remove([12])
print(live.step_ns)
live.undo()

Edits mean what they mean in `paceline.graph.Overlay`. Where all lanes run in recorded order and
nothing is drained, an edit revisits only ops whose times can change. Other graphs are replayed
whole: a lane that chooses its next op may choose otherwise from any point on.
"""

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import numpy as np

from paceline.engine import native
from paceline.errors import PacelineError, ReplayError
from paceline.graph import NONE, DepKind, Graph, Overlay
from paceline.graph.graph import Int32, Int64
from paceline.replay.columns import Columns
from paceline.replay.engine import checked_durations, replay
from paceline.replay.live_links import LiveLinks
from paceline.replay.program import program
from paceline.replay.timeline import Timeline

Ops = Int64 | Int32 | list[int]


class Live:
    """A graph's timeline under change. Every edit returns the new step time in ns."""

    def __init__(self, graph: Graph, *, prices: Int64 | None = None) -> None:
        dur_ns = checked_durations(graph, graph.ops.dur_ns if prices is None else prices)
        self.graph = graph
        self._dur_ns = dur_ns.copy()
        self._overlay = Overlay(replace(graph, ops=replace(graph.ops, dur_ns=dur_ns)))
        self._core = _core(graph, dur_ns)
        self._links = None if self._core is None else LiveLinks(graph, self._core)
        self._journal: list[Callable[[], None]] = []
        self._structural = 0  # edits in force that changed more than durations
        self._whole: Timeline | None = None  # where the graph cannot be followed op by op

    @property
    def step_ns(self) -> int:
        return self.timeline().step_ns if self._core is None else int(self._core.step)

    @property
    def dur_ns(self) -> Int64:
        """The durations as they are now, inserted ops last; 0 for removed ones."""
        return self._dur_ns.copy()

    def alive(self, op: int) -> bool:
        """Whether an op is there: not removed, not undone."""
        ids = self._overlay.new_ids()
        return 0 <= op < len(ids) and bool(ids[op] != NONE)

    def freeze(self) -> Graph:
        """The graph as it is now."""
        return self._overlay.freeze()

    def timeline(self) -> Timeline:
        """The whole timeline as it is now; after structural edits that of `freeze()`."""
        if self._core is None or self._structural:
            if self._whole is None:
                self._whole = replay(self.freeze())
            return self._whole
        ready, start, end = self._core.times(program(self.graph))
        columns = Columns(ready, start, end, None, None, np.zeros((0, 2), np.int32))
        return Timeline(self.graph, self._dur_ns.copy(), columns)

    def resize(self, ops: Ops, dur_ns: Int64 | int) -> int:
        """Give ops new durations."""
        ids = np.asarray(ops, np.int32)
        new = np.ascontiguousarray(np.broadcast_to(np.asarray(dur_ns, np.int64), ids.shape))
        self._check(ids, new)
        return self._edit(lambda: self._resize(ids, new))

    def scale(self, ops: Ops, factor: float) -> int:
        """Durations times `factor`, rounded to whole ns."""
        if not np.isfinite(factor) or factor < 0:
            raise ReplayError(f"cannot scale durations by {factor}; needed is 0 or more")
        ids = np.asarray(ops, np.int32)
        return self.resize(ids, np.rint(self._dur_ns[ids] * float(factor)).astype(np.int64))

    def link(self, src: int, op: int, kind: DepKind = DepKind.CONTROL) -> int:
        """`op` waits for `src`."""
        return self._edit(lambda: self._link(src, op, kind))

    def unlink(self, src: int, op: int) -> int:
        """`op` no longer waits for `src`."""
        return self._edit(lambda: self._unlink(src, op))

    def insert(
        self,
        name: str,
        lane: int,
        dur_ns: int,
        *,
        after: Iterable[int] = (),
        before: Iterable[int] = (),
        place_after: int | None = None,
    ) -> int:
        """A new op, whose id counts on from the graph's (see `Overlay.insert`)."""
        sides = (list(after), list(before))
        return self._edit(lambda: self._insert(name, lane, dur_ns, sides, place_after))

    def remove(self, ops: Iterable[int]) -> int:
        """Take ops out; what waited for one waits for what that one waited for."""
        ids = [int(op) for op in ops]
        return self._edit(lambda: self._remove(ids))

    def undo(self) -> int:
        """Take back the last edit."""
        if not self._journal:
            raise ReplayError("nothing to undo: no edit was made, or all are taken back")
        self._journal.pop()()
        self._whole = None
        return self.step_ns

    def _edit(self, change: Callable[[], None]) -> int:
        """Make a change that journals how each of its parts is undone; all of it or nothing."""
        mark, edits = len(self._journal), self._overlay.mark()
        try:
            change()
            self._whole = None
            if self._core is not None:
                self._core.settle()
            step_ns = self.step_ns
        except PacelineError:
            self._take_back(mark, edits)
            raise
        parts = self._journal[mark:]
        if parts or self._overlay.mark() > edits:
            del self._journal[mark:]
            self._journal.append(lambda: self._unwind(parts, edits))
        return step_ns

    def _take_back(self, mark: int, edits: int) -> None:
        parts = self._journal[mark:]
        del self._journal[mark:]
        self._unwind(parts, edits)
        self._whole = None

    def _unwind(self, parts: list[Callable[[], None]], edits: int) -> None:
        for undo in reversed(parts):
            undo()
        self._overlay.undo(edits)
        if self._core is not None:
            self._core.settle()

    def _resize(self, ids: Int32, dur_ns: Int64) -> None:
        old = self._dur_ns[ids]
        self._overlay.replace(ids, dur_ns=dur_ns)
        self._write(ids, dur_ns)
        self._journal.append(lambda: self._write(ids, old))

    def _write(self, ids: Int32, dur_ns: Int64) -> None:
        self._dur_ns[ids] = dur_ns
        if self._core is not None:
            self._core.resize(ids, dur_ns)

    def _link(self, src: int, op: int, kind: DepKind) -> None:
        self._overlay.link(src, op, kind)
        self._restructure(lambda links: links.link(src, op))

    def _unlink(self, src: int, op: int) -> None:
        self._overlay.unlink(src, op)
        self._restructure(lambda links: links.unlink(src, op))

    def _insert(
        self,
        name: str,
        lane: int,
        dur_ns: int,
        sides: tuple[list[int], list[int]],
        place_after: int | None,
    ) -> None:
        after, before = sides
        op = self._overlay.insert(
            name, lane, dur_ns, after=after, before=before, place_after=place_after
        )
        self._dur_ns = np.append(self._dur_ns, np.int64(dur_ns))
        self._journal.append(self._forget_last)
        if dur_ns < 0 or dur_ns + float(self._dur_ns.sum(dtype=np.float64)) >= 2.0**62:
            raise ReplayError(f"inserted op {name!r} lasts {dur_ns} ns; needed is 0 to 2^62 in all")
        anchor = len(self.graph) - 1 if place_after is None else place_after
        self._restructure(lambda links: links.insert(op, lane, dur_ns, anchor, after, before))

    def _forget_last(self) -> None:
        self._dur_ns = self._dur_ns[:-1].copy()

    def _remove(self, ids: list[int]) -> None:
        zero = np.zeros(len(ids), np.int64)
        self._resize(np.array(ids, np.int32), zero)
        self._overlay.remove(ids)
        self._restructure(lambda links: links.remove(ids))

    def _restructure(self, change: Callable[[LiveLinks], None]) -> None:
        self._structural += 1
        self._journal.append(self._one_less)
        if self._links is not None:
            links = self._links
            mark = links.mark()
            self._journal.append(lambda: links.undo(mark))
            change(links)

    def _one_less(self) -> None:
        self._structural -= 1

    def _check(self, ids: Int32, dur_ns: Int64) -> None:
        if len(np.unique(ids)) < len(ids):
            raise ReplayError("one edit names an op twice; name each op once")
        if len(ids) and not (ids.min() >= 0 and ids.max() < len(self._dur_ns)):
            raise ReplayError(f"op {ids.max()} or {ids.min()} is not among {len(self._dur_ns)} ops")
        changed = self._dur_ns.copy()
        changed[ids] = dur_ns
        checked_durations(self.graph, changed[: len(self.graph)])


def _core(graph: Graph, dur_ns: Int64) -> Any:
    """The native incremental engine, or None where the graph must be replayed whole."""
    core = native()
    if core is None or not program(graph).by_pull:
        return None
    return core.Live(program(graph), dur_ns)
