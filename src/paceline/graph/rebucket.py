"""`rebucketed`: gradients put together into other buckets, as DDP would.

A bucket's all-reduce is handed over with its last gradient. At the end of backward the thread
waits for the buckets in turn and copies each one back; the copies share the time that they took
in the recording by their bytes. On a device the work behind the wait stays in one piece.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from paceline.errors import GraphError
from paceline.graph.gradients import Gradients, gradients_of, reducing
from paceline.graph.graph import Bool, Graph, Int64
from paceline.graph.kinds import NONE, UNPRICED, WORK, DepKind, LaneKind, OpKind, Phase
from paceline.graph.links import Links
from paceline.graph.splice import Added, spliced

Buckets = Sequence[Sequence[int]]  # parameters of each, in the order in which they are ready


def rebucketed(graph: Graph, buckets: Buckets) -> Graph:
    """The graph with these buckets on every rank, in every step."""
    links = Links.of(graph)
    old = reducing(graph, links)
    if not len(old):
        raise GraphError(
            "the recording does not say which collectives reduce gradients, so its buckets cannot "
            "be changed. Record a job under DDP with `paceline record`."
        )
    work = _Work(graph, links, buckets, gradients_of(graph), old)
    for rank in np.unique(graph.ops.rank[old]).tolist():
        for step in np.unique(graph.ops.step[old]).tolist():
            work.change(rank, step)
    return work.graph()


@dataclass
class _New:
    """New ops as they are collected."""

    like: list[int] = field(default_factory=list)
    behind: list[int] = field(default_factory=list)
    kind: list[int] = field(default_factory=list)
    dur_ns: list[int] = field(default_factory=list)
    size_bytes: list[int] = field(default_factory=list)
    lane: list[int] = field(default_factory=list)
    instance: list[int] = field(default_factory=list)


class _Work:
    """Goes over the ranks and steps, and collects what is gone and what is new."""

    def __init__(
        self, graph: Graph, links: Links, buckets: Buckets, found: Gradients, old: Int64
    ) -> None:
        self.source, self.links, self.buckets, self.found, self.old = (
            graph, links, buckets, found, old
        )  # fmt: skip
        sizes = [p.size_bytes for p in graph.facts.parameters]
        self.sizes = [sum(sizes[p] for p in bucket) for bucket in buckets]
        self.gone = np.zeros(len(graph), np.bool_)
        self.new, self.rows = _New(), list[tuple[int, int, DepKind]]()
        self.instances = int(graph.ops.instance.max(initial=NONE)) + 1
        self.step_of = {int(s): i for i, s in enumerate(np.unique(graph.ops.step[old]))}

    def graph(self) -> Graph:
        new = self.new
        count = len(new.like)
        columns = {
            "kind": np.array(new.kind),
            "dur_ns": np.array(new.dur_ns),
            "size_bytes": np.array(new.size_bytes),
            "lane": np.array(new.lane),
            "instance": np.array(new.instance),
            "tensor": np.full(count, NONE),
        }
        added = Added(np.array(new.like, np.int64), np.array(new.behind, np.int64), columns)
        links = self.links
        for kind in sorted({kind for _, _, kind in self.rows}):
            part = np.array([(o, s) for o, s, k in self.rows if k is kind], np.int64)
            links = links.joined(Links.all_of(part[:, 0], part[:, 1], kind))
        return spliced(self.source, self.gone, added, links)

    def change(self, rank: int, step: int) -> None:
        ops, links = self.source.ops, self.links
        old = self.old[(ops.rank[self.old] == rank) & (ops.step[self.old] == step)]
        if not len(old):
            return
        ready = self._ready(rank, step)
        waiting = np.isin(links.src, old) & ~np.isin(links.op, old)
        waits = links.op[waiting & (ops.kind[links.op] != OpKind.COLLECTIVE)]
        self._drop(old)
        calls = self._calls(step, old, ready)
        lane = int(np.bincount(ops.lane[waits]).argmax()) if len(waits) else NONE
        update = self._behind_update(waits, lane)
        region = self._region(waits, lane, update, old)
        if self.source.lanes.kind[lane] == LaneKind.THREAD:
            self._copy_back(calls, region, lane, update)
        else:
            first = int(region[0]) if len(region) else update
            self.rows += [(first, call, DepKind.WAIT) for call in calls]
        if update != NONE:
            self.rows += [(update, call, DepKind.GRADIENT) for call in calls]

    def _ready(self, rank: int, step: int) -> dict[int, int]:
        """The op that readies each parameter's gradient; the last where several add to it."""
        ops, found = self.source.ops, self.found
        mine = (ops.rank[found.op] == rank) & (ops.step[found.op] == step)
        return dict(zip(found.parameter[mine].tolist(), found.op[mine].tolist()))

    def _drop(self, old: Int64) -> None:
        """Take out the old all-reduces, and what delays each on its lane of communication."""
        ops, links = self.source.ops, self.links
        self.gone[old] = True
        lanes = np.unique(ops.lane[old])
        mine = np.isin(ops.lane, lanes) & (ops.kind == OpKind.HOST)
        mine &= self.source.lanes.kind[ops.lane] == LaneKind.COMM_THREAD
        fed = np.isin(np.arange(len(ops)), links.op[links.kind == DepKind.GRADIENT])
        self.gone |= mine & fed & (ops.step == ops.step[old[0]])

    def _calls(self, step: int, old: Int64, ready: dict[int, int]) -> list[int]:
        lanes = list(dict.fromkeys(self.source.ops.lane[old].tolist()))
        calls = []
        for i, bucket in enumerate(self.buckets):
            last = max(ready[p] for p in bucket)
            number = self.instances + self.step_of[step] * len(self.buckets) + i
            call = self._add(int(old[0]), last, OpKind.COLLECTIVE, UNPRICED, self.sizes[i],
                             lanes[i % len(lanes)], number)  # fmt: skip
            self.rows += [(call, ready[p], DepKind.GRADIENT) for p in bucket]
            self.rows.append((call, self._launcher(last), DepKind.LAUNCH))
            calls.append(call)
        return calls

    def _launcher(self, op: int) -> int:
        """The host's op that hands over what must follow a gradient: itself, or of a kernel its
        launch."""
        if self.source.lanes.kind[self.source.ops.lane[op]] != LaneKind.STREAM:
            return op
        mine = (self.links.op == op) & (self.links.kind == DepKind.LAUNCH)
        launch = self.links.src[mine]
        return int(launch[0]) if len(launch) else op

    def _behind_update(self, waits: Int64, lane: int) -> int:
        """The first op of the update behind the waits."""
        ops = self.source.ops
        if not len(waits):
            return NONE
        after = (ops.lane == lane) & (ops.phase == Phase.UPDATE) & (ops.step == ops.step[waits[0]])
        rows = np.flatnonzero(after)
        rows = rows[rows >= waits.min()]
        return int(rows[0]) if len(rows) else NONE

    def _region(self, waits: Int64, lane: int, update: int, old: Int64) -> Int64:
        """Work between the first wait for a bucket and the update: the copying back."""
        ops = self.source.ops
        if not len(waits):
            return waits
        end = update if update != NONE else len(ops)
        rows = np.flatnonzero((ops.lane == lane) & (ops.step == ops.step[waits[0]]))
        rows = rows[(rows >= waits[ops.lane[waits] == lane].min()) & (rows < end)]
        found: Int64 = rows[self._plain(rows, old)]
        return found

    def _plain(self, rows: Int64, old: Int64) -> Bool:
        """Work and waits that have to do with nothing but the old buckets."""
        ops, links = self.source.ops, self.links
        kinds = np.isin(ops.kind[rows], (*WORK, OpKind.WAIT)) & (ops.tensor[rows] == NONE)
        across = ops.lane[links.src] != ops.lane[links.op]
        led = np.isin(rows, links.op[across & ~np.isin(links.src, old) & ~self.gone[links.src]])
        leads = np.isin(rows, links.src[across])
        return np.asarray(kinds & ~led & ~leads)

    def _copy_back(self, calls: list[int], region: Int64, lane: int, update: int) -> None:
        ops = self.source.ops
        self.gone[region] = True
        whole = int(np.maximum(ops.dur_ns[region], 0).sum())
        like = int(region[0]) if len(region) else update
        behind = max(int(region[-1]) if len(region) else NONE, update - 1 if update != NONE else 0)
        total = max(1, sum(self.sizes))
        for call, size in zip(calls, self.sizes):
            wait = self._add(like, behind, OpKind.WAIT, 0, 0, lane, NONE)
            self.rows.append((wait, call, DepKind.WAIT))
            if whole:
                share = round(whole * size / total)
                self._add(like, behind, OpKind.COMPUTE, share, 0, lane, NONE)

    def _add(
        self,
        like: int,
        behind: int,
        kind: OpKind,
        dur_ns: int,
        size_bytes: int,
        lane: int,
        instance: int,
    ) -> int:
        new = self.new
        new.like.append(like)
        new.behind.append(behind)
        new.kind.append(kind)
        new.dur_ns.append(dur_ns)
        new.size_bytes.append(size_bytes)
        new.lane.append(lane)
        new.instance.append(instance)
        return len(self.source) + len(new.like) - 1
