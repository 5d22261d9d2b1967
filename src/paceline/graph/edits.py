"""`Overlay`: undoable changes laid over a frozen graph; `freeze()` makes a new graph.

edits = Overlay(graph)
edits.scale(edits.select("kind=transfer"), 0.5)
edits.remove([7])
edits.undo()
faster = edits.freeze()

Ids stay those of the underlying graph; inserted ops count on from them. Only `freeze` renumbers,
and only where ops were inserted or removed (`new_ids` tells how).
"""

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from paceline.errors import GraphError
from paceline.graph.border import column_values
from paceline.graph.freezing import DEFAULTS, Changes, Inserted, freeze, new_ids
from paceline.graph.graph import Graph, Int64
from paceline.graph.kinds import UNPRICED, DepKind
from paceline.graph.select import select

Ops = Iterable[int] | Int64


class Overlay:
    """A graph under change. Every method that changes is one edit for `undo`."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self._changes = Changes()
        self._journal: list[Callable[[], None]] = []

    def __len__(self) -> int:
        """Ops, counting removed and inserted ones: every id in use is below this."""
        return len(self.graph) + len(self._changes.inserted)

    def select(self, expression: str) -> Int64:
        """Ids of the underlying graph's ops, removed ones left out (`paceline.graph.select`)."""
        found = select(self.graph, expression)
        removed = self._changes.removed
        return found[~np.isin(found, list(removed))] if removed else found

    def scale(self, ops: Ops, factor: float) -> None:
        """Durations times `factor`, rounded to whole ns; unpriced ops stay unpriced."""
        if not np.isfinite(factor) or factor < 0:
            raise GraphError(f"cannot scale durations by {factor}; needed is 0 or more")
        ids = self._ids(ops)
        old = self._values("dur_ns", ids)
        scaled = np.rint(old * float(factor))
        if len(scaled) and scaled.max() >= 2.0**62:
            raise GraphError(f"durations scaled by {factor} pass 2^62 ns; check the factor")
        self.replace(ids, dur_ns=np.where(old == UNPRICED, old, scaled.astype(np.int64)))

    def replace(self, ops: Ops, **values: Any) -> None:
        """Set columns of ops, as in `replace([3], dur_ns=5, size_bytes=64)`; arrays set each."""
        ids = self._ids(ops)
        new = {name: column_values(name, value, len(ids)) for name, value in values.items()}
        if "lane" in new:
            new["rank"] = self._ranks_of(new["lane"])
        if "dur_ns" in new and len(ids) and new["dur_ns"].min() < UNPRICED:
            raise GraphError(f"op {ids[np.argmin(new['dur_ns'])]} would get a negative duration")
        old = {name: self._values(name, ids) for name in new}
        self._write(ids, new)
        self._journal.append(lambda: self._write(ids, old))

    def prioritise(self, ops: Ops, priority: int | Int64) -> None:
        """Set priorities; on PRIORITY lanes the lower goes first."""
        self.replace(ops, priority=priority)

    def insert(
        self,
        name: str,
        lane: int,
        dur_ns: int,
        *,
        after: Iterable[int] = (),
        before: Iterable[int] = (),
        place_after: int | None = None,
        **columns: Any,
    ) -> int:
        """A new op; returns its id. It waits for `after`, and `before` wait for it.

        In id order, which a RECORDED lane serves, it stands just behind `place_after`, else last.
        """
        op, changes = len(self), self._changes
        given = {"lane": lane, "dur_ns": dur_ns, **columns}
        row = {key: int(column_values(key, value, 1)[0]) for key, value in given.items()}
        row["rank"] = int(self._ranks_of(np.array([row["lane"]]))[0])
        if row["dur_ns"] < UNPRICED:
            raise GraphError(f"inserted op {name!r} has duration {dur_ns} ns, which is negative")
        anchor = len(self.graph) - 1 if place_after is None else self._anchor(place_after)
        links = [(src, op, DepKind.CONTROL) for src in self._ids(after).tolist()]
        links += [(op, other, DepKind.CONTROL) for other in self._ids(before).tolist()]
        changes.inserted.append(Inserted(name, anchor, row))
        changes.linked += links

        def undo() -> None:
            changes.inserted.pop()
            del changes.linked[len(changes.linked) - len(links) :]

        self._journal.append(undo)
        return op

    def remove(self, ops: Ops) -> None:
        """Take ops out; what waited for one then waits for what that one waited for."""
        new = set(self._ids(ops).tolist())
        self._changes.removed |= new
        self._journal.append(lambda: self._changes.removed.difference_update(new))

    def link(self, src: int, op: int, kind: DepKind = DepKind.CONTROL) -> None:
        """`op` waits for `src`."""
        self._ids([src, op])
        if src == op:
            raise GraphError(f"op {op} cannot wait for itself; link two different ops")
        linked = self._changes.linked
        linked.append((src, op, kind))
        self._journal.append(lambda: linked.__delitem__(-1))

    def unlink(self, src: int, op: int) -> None:
        """`op` no longer waits for `src`."""
        self._ids([src, op])
        changes = self._changes
        before = list(changes.linked)
        kept = [link for link in changes.linked if link[:2] != (src, op)]
        known = op < len(self.graph) and src in self.graph.deps.of(op)
        fresh = known and (src, op) not in changes.unlinked
        if not fresh and len(kept) == len(before):
            raise GraphError(f"op {op} does not wait for op {src}: there is no link to take away")
        changes.linked[:] = kept
        if fresh:
            changes.unlinked.add((src, op))

        def undo() -> None:
            changes.linked[:] = before
            if fresh:
                changes.unlinked.discard((src, op))

        self._journal.append(undo)

    def mark(self) -> int:
        """A point that `undo` can return to."""
        return len(self._journal)

    def undo(self, to: int | None = None) -> None:
        """Take back the last edit, or all edits since a `mark`."""
        target = len(self._journal) - 1 if to is None else to
        if not 0 <= target <= len(self._journal):
            raise GraphError(f"nothing to undo: {len(self._journal)} edits, asked for {target}")
        while len(self._journal) > target:
            self._journal.pop()()

    def freeze(self) -> Graph:
        """The changed graph. Columns and links that no edit touched are shared with the old one."""
        return freeze(self.graph, self._changes)

    def new_ids(self) -> Int64:
        """For each id of the overlay its id in the frozen graph, or NONE where removed."""
        return new_ids(self.graph, self._changes)

    def _ids(self, ops: Ops) -> Int64:
        ids = np.asarray(ops if isinstance(ops, np.ndarray) else list(ops), np.int64)
        if len(ids) and not (ids.min() >= 0 and ids.max() < len(self)):
            raise GraphError(f"op {ids.max()} or {ids.min()} is not among ids 0 to {len(self) - 1}")
        if self._changes.removed and (gone := self._changes.removed.intersection(ids.tolist())):
            raise GraphError(f"op {min(gone)} has been removed; undo that first")
        return ids

    def _anchor(self, op: int) -> int:
        """The op of the underlying graph behind which an inserted op comes to stand."""
        self._ids([op])
        below = op - len(self.graph)
        return op if below < 0 else self._changes.inserted[below].anchor

    def _ranks_of(self, lanes: Int64) -> Int64:
        wrong = (lanes < 0) | (lanes >= len(self.graph.lanes))
        if wrong.any():
            raise GraphError(
                f"lane {lanes[np.argmax(wrong)]} is not there; lanes are 0 to "
                f"{len(self.graph.lanes) - 1}"
            )
        ranks: Int64 = self.graph.lanes.rank[lanes].astype(np.int64)
        return ranks

    def _values(self, name: str, ids: Int64) -> Int64:
        inside = ids < len(self.graph)
        column = self._changes.columns.get(name, getattr(self.graph.ops, name))
        found = np.empty(len(ids), np.int64)
        found[inside] = column[ids[inside]]
        for at in np.flatnonzero(~inside):
            row = self._changes.inserted[ids[at] - len(self.graph)].row
            found[at] = row.get(name, DEFAULTS[name])
        return found

    def _write(self, ids: Int64, values: dict[str, Int64]) -> None:
        inside = ids < len(self.graph)
        for name, new in values.items():
            if inside.any():
                columns = self._changes.columns
                if name not in columns:
                    columns[name] = getattr(self.graph.ops, name).copy()
                columns[name][ids[inside]] = new[inside]
            for at in np.flatnonzero(~inside):
                self._changes.inserted[ids[at] - len(self.graph)].row[name] = int(new[at])
