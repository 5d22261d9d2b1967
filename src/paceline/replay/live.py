"""`Live`: a replay that stays in memory and follows edits of durations, exactly and fast.

live = Live(graph)
live.scale(select(graph, "tensor=tensor 7,kind=transfer"), 0.5)
print(live.step_ns)
live.undo()

Where all lanes run in recorded order and nothing is drained, an edit revisits only ops whose times
can change. Other graphs are replayed whole, by the event engine: a lane that chooses its next op
may choose otherwise from any point on.
"""

from typing import Any

import numpy as np

from paceline.engine import native
from paceline.errors import ReplayError
from paceline.graph import Graph
from paceline.graph.graph import Int32, Int64
from paceline.replay.columns import Columns
from paceline.replay.engine import checked_durations, replay
from paceline.replay.program import program
from paceline.replay.timeline import Timeline


class Live:
    """A graph's timeline under change of durations. The graph itself stays as it is."""

    def __init__(self, graph: Graph, *, prices: Int64 | None = None) -> None:
        dur_ns = checked_durations(graph, graph.ops.dur_ns if prices is None else prices)
        self.graph = graph
        self._dur_ns = dur_ns.copy()
        self._journal: list[tuple[Int32, Int64]] = []
        self._core = _core(graph, dur_ns)
        self._whole: Timeline | None = None  # where the graph cannot be followed op by op

    @property
    def step_ns(self) -> int:
        if self._core is not None:
            return int(self._core.step)
        return self.timeline().step_ns

    @property
    def dur_ns(self) -> Int64:
        """The durations as they are now."""
        return self._dur_ns.copy()

    def resize(self, ops: Int64 | Int32 | list[int], dur_ns: Int64 | int) -> int:
        """Give ops new durations; returns the new step time in ns."""
        ids = np.asarray(ops, np.int32)
        new = np.broadcast_to(np.asarray(dur_ns, np.int64), ids.shape)
        self._check(ids, new)
        old = self._dur_ns[ids]
        try:
            step_ns = self._write(ids, np.ascontiguousarray(new))
        except ReplayError:  # stuck: stay as before
            self._write(ids, old)
            raise
        self._journal.append((ids, old))
        return step_ns

    def scale(self, ops: Int64 | Int32 | list[int], factor: float) -> int:
        """Durations times `factor`, rounded to whole ns; returns the new step time in ns."""
        if not np.isfinite(factor) or factor < 0:
            raise ReplayError(f"cannot scale durations by {factor}; needed is 0 or more")
        ids = np.asarray(ops, np.int32)
        scaled = np.rint(self._dur_ns[ids] * float(factor))
        return self.resize(ids, scaled.astype(np.int64))

    def undo(self) -> int:
        """Take back the last edit; returns the step time as it was."""
        if not self._journal:
            raise ReplayError("nothing to undo: no edit was made, or all are taken back")
        return self._write(*self._journal.pop())

    def timeline(self) -> Timeline:
        """The whole timeline as it is now."""
        if self._core is None:
            if self._whole is None:
                self._whole = replay(self.graph, prices=self._dur_ns.copy())
            return self._whole
        ready, start, end = self._core.times(program(self.graph))
        columns = Columns(ready, start, end, None, None, np.zeros((0, 2), np.int32))
        return Timeline(self.graph, self._dur_ns.copy(), columns)

    def _write(self, ids: Int32, dur_ns: Int64) -> int:
        self._dur_ns[ids] = dur_ns
        self._whole = None
        if self._core is not None:
            self._core.resize(ids, dur_ns)
        return self.step_ns

    def _check(self, ids: Int32, dur_ns: Int64) -> None:
        if len(np.unique(ids)) < len(ids):
            raise ReplayError("one edit names an op twice; name each op once")
        if len(ids) and not (ids.min() >= 0 and ids.max() < len(self.graph)):
            raise ReplayError(f"op {ids.max()} or {ids.min()} is not among {len(self.graph)} ops")
        changed = self._dur_ns.copy()
        changed[ids] = dur_ns
        checked_durations(self.graph, changed)


def _core(graph: Graph, dur_ns: Int64) -> Any:
    """The native incremental engine, or None where the graph must be replayed whole."""
    core = native()
    if core is None or not program(graph).by_pull:
        return None
    return core.Live(program(graph), dur_ns)
