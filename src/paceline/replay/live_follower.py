"""What `Live` asks of a native engine that follows edits. Two do: `LiveLinks` for lanes that all
run in recorded order, `LiveQueues` for graphs that need events."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from paceline.graph import DepKind
from paceline.graph.graph import Int32, Int64
from paceline.replay.columns import Columns


@dataclass(frozen=True)
class NewOp:
    """An op to be inserted, by overlay ids."""

    id: int
    lane: int
    dur_ns: int
    place_after: int | None  # the op behind which it stands in id order; None: all of the graph's
    after: tuple[int, ...]
    before: tuple[int, ...]


class Follower(Protocol):
    """Follows edits and knows all times. Ops go by overlay ids, removed ones keep theirs.

    `link`, `unlink`, `insert` and `remove` return False, and have done nothing, where the engine
    cannot follow; what they did is undone back to a `mark`.
    """

    def resize(self, ops: Int32, dur_ns: Int64) -> None: ...

    def prioritise(self, ops: Int32, priority: Int32) -> None: ...

    def link(self, src: int, op: int, kind: DepKind) -> bool: ...

    def unlink(self, src: int, op: int) -> bool: ...

    def insert(self, op: NewOp) -> bool: ...

    def remove(self, ops: list[int]) -> bool: ...

    def mark(self) -> int: ...

    def undo(self, to: int) -> None: ...

    def settle(self) -> int | None:
        """Bring all times up to date. How many ops were revisited, or None: replay is stuck."""

    def columns(self) -> Columns: ...

    @property
    def step_ns(self) -> int: ...

    @property
    def bytes(self) -> int: ...


class Log:
    """Parts of edits that were made, each with what undoes it."""

    def __init__(self) -> None:
        self._undo: list[Callable[[], object]] = []

    def do(self, change: Callable[[], object], undo: Callable[[], object]) -> None:
        change()
        self.made(undo)

    def made(self, undo: Callable[[], object]) -> None:
        """A change was made that `undo` takes back."""
        self._undo.append(undo)

    def __len__(self) -> int:
        return len(self._undo)

    def undo(self, to: int) -> None:
        while len(self._undo) > to:
            self._undo.pop()()


class Bridges:
    """Links that followers of removed ops took over. They outlast an `unlink`, as they do in
    `Overlay.freeze`, which takes links away first and ops out after."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._known: set[tuple[int, int]] = set()

    def __contains__(self, link: tuple[int, int]) -> bool:
        return link in self._known

    def add(self, src: int, op: int) -> None:
        link = (src, op)
        if link not in self._known:
            self._log.do(lambda: self._known.add(link), lambda: self._known.remove(link))


class Undoable:
    """What followers share: the core's figures, and a log of what was done to it."""

    def __init__(self, core: Any) -> None:
        self._core = core
        self._log = Log()
        self._bridges = Bridges(self._log)
        self._anchor: dict[int, int] = {}  # of inserted ops: where they stand in id order

    @property
    def step_ns(self) -> int:
        return int(self._core.step)

    @property
    def bytes(self) -> int:
        return int(self._core.bytes)

    def mark(self) -> int:
        return len(self._log)

    def undo(self, to: int) -> None:
        self._log.undo(to)
