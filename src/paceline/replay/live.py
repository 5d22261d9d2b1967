"""`Live`: a replay that stays in memory and follows edits, exactly and fast.

live = Live(graph)
live.scale(select(graph, "tensor=tensor 7,kind=transfer"), 0.5)
live.remove([12])
print(live.step_ns)
live.undo()

Edits mean what they mean in `paceline.graph.Overlay`. Where all lanes run in recorded order and
nothing drains, contends or is carried, an edit revisits only ops whose times can change. Other
graphs are causal in time: an edit goes back to just before the first instant that it can change,
and the replay goes on from there, until all that runs and waits is as it was before the edit or
all of it later by one difference.

Replayed whole after each edit are: everything without the native core; graphs whose transfers are
carried by a pace that cannot go back (written in Python, or over shaped links); graphs whose ranks
share cores; and, while such an edit is in force, graphs with drains of which an edit changed what
is launched (links of kind LAUNCH, ops that launch or are launched).
"""

from collections.abc import Callable, Iterable
from dataclasses import replace

import numpy as np

from paceline.cluster import Cluster
from paceline.engine import native
from paceline.errors import PacelineError, ReplayError
from paceline.graph import NONE, DepKind, Graph, Overlay
from paceline.graph.graph import Int32, Int64
from paceline.replay.columns import Columns
from paceline.replay.contention import LONGEST_NS as LONGEST_CONTENDED_NS
from paceline.replay.contention import Contention
from paceline.replay.engine import (
    NetworkModel,
    chosen_engine,
    durations,
    replay,
    shared_links,
    shared_of,
)
from paceline.replay.hosts import SharedHosts
from paceline.replay.job import LONGEST_NS, ReplayJob, Shares
from paceline.replay.live_follower import Follower, NewOp
from paceline.replay.live_links import LiveLinks
from paceline.replay.live_queues import LiveQueues
from paceline.replay.pace import Transfers
from paceline.replay.program import program
from paceline.replay.timeline import Timeline

Ops = Int64 | Int32 | list[int]


class Live:
    """A graph's timeline under change. Every edit returns the new step time in ns.

    `cluster`, `prices`, `network`, `contention`, `transfers` and `hosts` are those of `replay`.
    Transfers stay those of the first graph: an edit makes no new ones, and what it removes does not
    begin. So do processor times and waits of `hosts`: what an edit inserts has none.
    """

    def __init__(
        self,
        graph: Graph,
        cluster: Cluster | None = None,
        *,
        prices: Int64 | None = None,
        network: NetworkModel = NetworkModel.CLOSED,
        contention: Contention | None = None,
        transfers: Transfers | None = None,
        hosts: SharedHosts | None = None,
    ) -> None:
        if network is NetworkModel.FLOWS:
            transfers = shared_links(graph, cluster, transfers, chosen_engine(None))
        shares = Shares(contention, transfers, hosts)
        self._job = ReplayJob.of(graph, durations(graph, cluster, prices), shares)
        self.graph = graph
        self._dur_ns, self._priority = self._job.dur_ns.copy(), graph.ops.priority.copy()
        self._overlay = Overlay(replace(graph, ops=replace(graph.ops, dur_ns=self._job.dur_ns)))
        self._journal: list[Callable[[], None]] = []
        self._beyond = 0  # edits in force that changed more than durations
        self._lost = 0  # edits in force that the follower could not follow
        self._whole: Timeline | None = None  # a full replay, where there was need of one
        self._revisited = len(graph)
        self._follower = _follower(self._job)
        self._settle()
        if self._follower is None:
            self._replayed()  # so that a graph which cannot be replayed is refused here

    @property
    def step_ns(self) -> int:
        if self._follower is None or self._lost:
            return self._replayed().step_ns
        return self._follower.step_ns

    @property
    def dur_ns(self) -> Int64:
        """The durations as they are now, inserted ops last; 0 for removed and carried ones."""
        return self._dur_ns.copy()

    @property
    def revisited(self) -> int:
        """How many ops the last edit or undo replayed; all, where the graph was replayed whole."""
        return self._revisited

    @property
    def bytes(self) -> int:
        """What following takes beyond the graph and its program; 0 without the native core."""
        return 0 if self._follower is None else self._follower.bytes

    def alive(self, op: int) -> bool:
        """Whether an op is there: not removed, not undone."""
        ids = self._overlay.new_ids()
        return 0 <= op < len(ids) and bool(ids[op] != NONE)

    def freeze(self) -> Graph:
        """The graph as it is now."""
        return self._overlay.freeze()

    def ids(self) -> Int64:
        """For each op of `freeze()`, and so of `timeline()`, the id it has here."""
        new_ids = self._overlay.new_ids()
        there = np.flatnonzero(new_ids != NONE)
        return there[np.argsort(new_ids[there])]

    def timeline(self) -> Timeline:
        """The timeline as it is now; once more than durations was edited, that of `freeze()`."""
        if self._follower is None or self._lost:
            return self._replayed()
        columns = self._follower.columns()
        if not self._beyond:
            return Timeline(self.graph, self._dur_ns.copy(), columns)
        frozen = self.freeze()
        return Timeline(
            frozen, frozen.ops.dur_ns, _renumbered(columns, self.ids(), len(self._dur_ns))
        )

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

    def prioritise(self, ops: Ops, priority: Int64 | int) -> int:
        """Set priorities; on PRIORITY lanes the lower goes first."""
        ids = np.asarray(ops, np.int32)
        new = np.ascontiguousarray(np.broadcast_to(np.asarray(priority, np.int32), ids.shape))
        self._check_ids(ids)
        return self._edit(lambda: self._prioritise(ids, new))

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
        new = NewOp(len(self._dur_ns), lane, dur_ns, place_after, tuple(after), tuple(before))
        return self._edit(lambda: self._insert(name, new))

    def remove(self, ops: Iterable[int]) -> int:
        """Take ops out; what waited for one waits for what that one waited for."""
        ids = [int(op) for op in ops]
        return self._edit(lambda: self._remove(ids))

    def undo(self) -> int:
        """Take back the last edit."""
        if not self._journal:
            raise ReplayError("nothing to undo: no edit was made, or all are taken back")
        self._journal.pop()()
        return self.step_ns

    def _edit(self, change: Callable[[], None]) -> int:
        """Make a change that journals how each of its parts is undone; all of it or nothing."""
        mark, edits = len(self._journal), self._overlay.mark()
        try:
            change()
            self._settle()
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

    def _unwind(self, parts: list[Callable[[], None]], edits: int) -> None:
        for undo in reversed(parts):
            undo()
        self._overlay.undo(edits)
        self._settle()

    def _settle(self) -> None:
        """Bring the follower up to date with all changes."""
        self._whole, self._revisited = None, len(self._dur_ns)
        if self._follower is None or self._lost:
            return
        revisited = self._follower.settle()
        if revisited is None:
            self._replayed()  # names the ops that wait for each other
            raise ReplayError("an edited replay is stuck where a full one is not; please report it")
        self._revisited = revisited

    def _replayed(self) -> Timeline:
        """The full replay of `freeze()`."""
        if self._whole is None:
            shares = self._job.shares
            if self._beyond:
                ids = self.ids()
                shares = shares.renumbered(np.where(ids < len(self.graph), ids, NONE))
            self._whole = replay(
                self.freeze(),
                contention=shares.contention,
                transfers=shares.transfers,
                hosts=shares.hosts,
            )
        return self._whole

    def _resize(self, ids: Int32, dur_ns: Int64) -> None:
        old = self._dur_ns[ids]
        self._overlay.replace(ids, dur_ns=dur_ns)
        self._write(ids, dur_ns)
        self._journal.append(lambda: self._write(ids, old))

    def _write(self, ids: Int32, dur_ns: Int64) -> None:
        self._dur_ns[ids] = dur_ns
        if self._follower is not None and not self._lost:
            self._follower.resize(ids, dur_ns)

    def _prioritise(self, ids: Int32, priority: Int32) -> None:
        old = self._priority[ids]
        self._overlay.prioritise(ids, priority.astype(np.int64))
        self._restructure(lambda _: True)
        self._write_priority(ids, priority)
        self._journal.append(lambda: self._write_priority(ids, old))

    def _write_priority(self, ids: Int32, priority: Int32) -> None:
        self._priority[ids] = priority
        if self._follower is not None and not self._lost:
            self._follower.prioritise(ids, priority)

    def _link(self, src: int, op: int, kind: DepKind) -> None:
        self._overlay.link(src, op, kind)
        self._restructure(lambda follower: follower.link(src, op, kind))

    def _unlink(self, src: int, op: int) -> None:
        self._overlay.unlink(src, op)
        self._restructure(lambda follower: follower.unlink(src, op))

    def _insert(self, name: str, new: NewOp) -> None:
        self._overlay.insert(
            name,
            new.lane,
            new.dur_ns,
            after=new.after,
            before=new.before,
            place_after=new.place_after,
        )
        self._dur_ns = np.append(self._dur_ns, np.int64(new.dur_ns))
        self._priority = np.append(self._priority, np.int32(0))
        self._journal.append(self._forget_last)
        self._check_inserted(name, new.dur_ns)
        self._restructure(lambda follower: follower.insert(new))

    def _forget_last(self) -> None:
        self._dur_ns, self._priority = self._dur_ns[:-1].copy(), self._priority[:-1].copy()

    def _remove(self, ids: list[int]) -> None:
        zero = np.zeros(len(ids), np.int64)
        self._resize(np.array(ids, np.int32), zero)
        self._overlay.remove(ids)
        self._restructure(lambda follower: follower.remove(ids))

    def _restructure(self, change: Callable[[Follower], bool]) -> None:
        """A change of more than durations, by the follower where it can follow."""
        self._beyond += 1
        self._journal.append(self._one_less)
        follower = self._follower
        if follower is None or self._lost:
            self._lose()
            return
        mark = follower.mark()
        self._journal.append(lambda: follower.undo(mark))
        if not change(follower):
            self._lose()

    def _one_less(self) -> None:
        self._beyond -= 1

    def _lose(self) -> None:
        self._lost += 1
        self._journal.append(self._find)

    def _find(self) -> None:
        self._lost -= 1

    def _check(self, ids: Int32, dur_ns: Int64) -> None:
        self._check_ids(ids)
        inside = ids < len(self.graph)
        changed = self._dur_ns[: len(self.graph)].copy()
        changed[ids[inside]] = dur_ns[inside]
        shares = self._job.shares
        ReplayJob.of(self.graph, changed, replace(shares, transfers=None))
        if shares.transfers is not None:
            self._refuse_carried(ids[inside][shares.transfers.carried[ids[inside]]])

    def _refuse_carried(self, ids: Int32) -> None:
        if len(ids):
            raise ReplayError(
                f"{self.graph[int(ids[0])]} is carried by transfers, which decide how long it "
                "takes; change the transfers, or leave it out of the edit"
            )

    def _check_ids(self, ids: Int32) -> None:
        if len(np.unique(ids)) < len(ids):
            raise ReplayError("one edit names an op twice; name each op once")
        if len(ids) and not (ids.min() >= 0 and ids.max() < len(self._dur_ns)):
            raise ReplayError(f"op {ids.max()} or {ids.min()} is not among {len(self._dur_ns)} ops")

    def _check_inserted(self, name: str, dur_ns: int) -> None:
        longest = LONGEST_NS if self._job.shares.contention is None else LONGEST_CONTENDED_NS
        if not 0 <= dur_ns < longest or self._dur_ns.sum(dtype=np.float64) >= LONGEST_NS:
            raise ReplayError(
                f"inserted op {name!r} lasts {dur_ns} ns; needed is 0 to {longest}, "
                f"and all ops together at most {LONGEST_NS}"
            )


def _follower(job: ReplayJob) -> Follower | None:
    """A native engine that can follow edits of this replay; None where it must be made whole."""
    core = native()
    if core is None:
        return None
    shared = shared_of(job)
    if shared is not None and not shared.goes_back:
        return None
    compiled = program(job.graph, events=shared is not None)
    if compiled.by_pull:
        return LiveLinks(job.graph, core.Live(compiled, job.dur_ns))
    priority = np.ascontiguousarray(job.graph.ops.priority)
    return LiveQueues(job.graph, core.LiveEvents(compiled, job.dur_ns, priority, shared))


def _renumbered(columns: Columns, ids: Int64, count: int) -> Columns:
    """Rows as they stand in the frozen graph, whose ops are `ids` of `count` here."""
    new_ids = np.full(count, NONE, np.int32)
    new_ids[ids] = np.arange(len(ids))

    def renamed(ops: Int32) -> Int32:
        found: Int32 = np.where(ops == NONE, np.int32(NONE), new_ids[ops])
        return found

    return Columns(
        columns.ready_ns[ids],
        columns.start_ns[ids],
        columns.end_ns[ids],
        None if columns.previous is None else renamed(columns.previous[ids]),
        None if columns.order is None else renamed(columns.order),
        _sorted_pairs(renamed(columns.drained)),
    )


def _sorted_pairs(pairs: Int32) -> Int32:
    return pairs[np.lexsort((pairs[:, 1], pairs[:, 0]))]
