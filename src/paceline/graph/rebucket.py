"""`rebucketed`: gradients put together into other buckets, as DDP would.

A bucket's all-reduce is handed over behind its last gradient, and behind the buckets before it. At
the end of backward the thread waits for the buckets in turn and copies each one back; the copies
share the time that they took in the recording by their bytes. On a device the work behind the wait
stays in one piece.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from operator import itemgetter
from typing import NamedTuple

import numpy as np

from paceline.errors import GraphError
from paceline.graph.copy_back import CopyBack, copy_back
from paceline.graph.gradients import Gradients, gradients_of, not_told, ready_orders, reducing
from paceline.graph.graph import Bool, Graph, Int64
from paceline.graph.hand_over import HandOver
from paceline.graph.kinds import NONE, UNPRICED, DepKind, LaneKind, OpKind, Phase
from paceline.graph.links import Links
from paceline.graph.splice import Added, spliced

Buckets = Sequence[Sequence[int]]  # parameters of each, in the order of hand-over


def rebucketed(graph: Graph, cut: Callable[[Sequence[int]], Buckets]) -> Graph:
    """The graph with other buckets on every rank, in every step. `cut` puts parameters, given in
    the order in which they are ready, into buckets, which are handed over in turn."""
    links = Links.of(graph)
    old = reducing(graph, links)
    if not len(old):
        raise GraphError(
            "the recording does not say which collectives reduce gradients, so its buckets cannot "
            "be changed. Record a job under DDP with `paceline record`, and change buckets before "
            "the exchange."
        )
    found = gradients_of(graph)
    buckets = _buckets(graph, old, found, cut)
    work = _Work(_Source(graph, links, found, old), buckets)
    for rank in np.unique(graph.ops.rank[old]).tolist():
        for step in np.unique(graph.ops.step[old]).tolist():
            work.change(rank, step)
    return work.graph()


def _buckets(
    graph: Graph, old: Int64, found: Gradients, cut: Callable[[Sequence[int]], Buckets]
) -> dict[int, Buckets]:
    """By group of replicas: cut as on its first rank, for all must agree."""
    orders = ready_orders(graph, found)
    made: dict[int, Buckets] = {}
    groups: dict[int, int] = {}  # by rank
    for rank, group in zip(graph.ops.rank[old].tolist(), graph.ops.group[old].tolist()):
        if groups.setdefault(rank, group) != group:
            raise GraphError(
                f"rank {rank} reduces gradients in two groups, and the recording does not say "
                "which parameter belongs to which, so its buckets cannot be changed"
            )
        if rank not in orders:
            raise not_told()
        if group not in made:
            made[group] = cut(orders[rank])
    return made


@dataclass(frozen=True, eq=False)
class _Source:
    """What is changed."""

    graph: Graph
    links: Links
    found: Gradients
    old: Int64  # the all-reduces of buckets

    @cached_property
    def on_stream(self) -> Bool:
        """Lanes of a device's kernels."""
        return np.asarray(self.graph.lanes.kind == LaneKind.STREAM)

    @cached_property
    def handed(self) -> HandOver:
        return HandOver(self.graph, self.links)


class _Op(NamedTuple):
    """A new op."""

    like: int  # the op that it takes its other columns from
    behind: int
    kind: int  # OpKind
    dur_ns: int
    lane: int
    size_bytes: int = 0
    instance: int = NONE
    phase: int = int(Phase.COMMUNICATION)
    tensor: int = NONE


@dataclass
class _Work:
    """Goes over the ranks and steps, and collects what is gone and what is new."""

    source: _Source
    buckets: dict[int, Buckets]  # by group
    new: list[_Op] = field(default_factory=list)
    rows: list[tuple[int, int, DepKind]] = field(default_factory=list)
    instances: dict[tuple[int, int, int], int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        graph = self.source.graph
        self.gone: Bool = np.zeros(len(graph), np.bool_)
        self.count = len(graph)
        self.first_instance = int(graph.ops.instance.max(initial=NONE)) + 1
        self.sizes = [parameter.size_bytes for parameter in graph.facts.parameters]

    def graph(self) -> Graph:
        graph, new, links = self.source.graph, self.new, self.source.links
        columns = dict(zip(_Op._fields, np.array(new, np.int64).reshape(-1, len(_Op._fields)).T))
        like, behind = columns.pop("like"), columns.pop("behind")
        rows = np.array(sorted(self.rows, key=itemgetter(2)), np.int64).reshape(-1, 3)
        made = Links(rows[:, 0], rows[:, 1], rows[:, 2], np.zeros(len(rows), np.bool_))
        return spliced(graph, self.gone, Added(like, behind, columns), links.joined(made))

    def change(self, rank: int, step: int) -> None:
        graph, old = self.source.graph, self.source.old
        mine = old[(graph.ops.rank[old] == rank) & (graph.ops.step[old] == step)]
        if not len(mine):
            return
        goes = self.source.handed.with_delays(mine)
        launches = self.source.handed.launches(goes)
        dropped = np.flatnonzero(goes)
        self.gone[dropped] = True
        self.gone[launches] = True
        calls = self._calls(mine, launches, self._ready(rank, step))
        back = copy_back(graph, self.source.links, dropped)
        if back.first == NONE:
            return
        if graph.lanes.kind[graph.ops.lane[back.first]] == LaneKind.THREAD:
            self._copy_back(calls, back, back.removable(graph, self.source.links, dropped))
        else:
            self.rows += [(back.first, call, DepKind.WAIT) for call in calls]
        if back.update != NONE:
            self.rows += [(back.update, call, DepKind.GRADIENT) for call in calls]

    def _ready(self, rank: int, step: int) -> dict[int, int]:
        """The op that readies each parameter's gradient; the last where several add to it."""
        ops, found = self.source.graph.ops, self.source.found
        mine = (ops.rank[found.op] == rank) & (ops.step[found.op] == step)
        return dict(zip(found.parameter[mine].tolist(), found.op[mine].tolist()))

    def _calls(self, old: Int64, launches: Int64, ready: dict[int, int]) -> list[int]:
        ops = self.source.graph.ops
        lanes = list(dict.fromkeys(ops.lane[old].tolist()))
        group, step = int(ops.group[old[0]]), int(ops.step[old[0]])
        calls, last = [], NONE
        for i, bucket in enumerate(self.buckets[group]):
            if not ready.keys() >= set(bucket):
                raise not_told()
            last = max(last, *(ready[p] for p in bucket))
            handed = self._hand_over(launches, last)
            size = sum(self.sizes[p] for p in bucket)
            number = self._instance(int(old[0]), (group, step, i))
            lane = lanes[i % len(lanes)]
            call = self._add(
                _Op(int(old[0]), last, OpKind.COLLECTIVE, UNPRICED, lane, size, number)
            )
            self.rows += [(call, ready[p], DepKind.GRADIENT) for p in bucket]
            self.rows.append((call, handed, DepKind.LAUNCH))
            calls.append(call)
        return calls

    def _instance(self, old: int, key: tuple[int, int, int]) -> int:
        """What joins the ranks' parts of a bucket; a lone rank's call that stands for all has
        none."""
        instance = self.source.graph.ops.instance
        if instance[old] == NONE:
            return NONE
        return self.instances.setdefault(key, self.first_instance + len(self.instances))

    def _hand_over(self, launches: Int64, last: int) -> int:
        """The host's op that hands over what must follow a gradient."""
        behind, ops = self._launcher(last), self.source.graph.ops
        if not len(launches):
            return behind
        mean = round(float(ops.dur_ns[launches].mean()))
        lane = int(ops.lane[behind])
        return self._add(_Op(int(launches[0]), behind, OpKind.HOST, mean, lane))

    def _launcher(self, op: int) -> int:
        """The op itself, or of a kernel its launch."""
        graph, links = self.source.graph, self.source.links
        if not self.source.on_stream[graph.ops.lane[op]]:
            return op
        launch = links.src[(links.op == op) & (links.kind == DepKind.LAUNCH)]
        return int(launch[0]) if len(launch) else op

    def _copy_back(self, calls: list[int], back: CopyBack, copies: Int64) -> None:
        ops = self.source.graph.ops
        self.gone[copies] = True
        whole = int(np.maximum(ops.dur_ns[copies], 0).sum())
        like, behind = back.first, int(copies[-1]) if len(copies) else back.first - 1
        lane, phase = int(ops.lane[like]), Phase.BACKWARD
        sizes = [self.new[call - self.count].size_bytes for call in calls]
        for call, size in zip(calls, sizes):
            wait = self._add(_Op(like, behind, OpKind.WAIT, 0, lane, phase=phase))
            self.rows.append((wait, call, DepKind.WAIT))
            if whole:
                share = round(whole * size / max(1, sum(sizes)))
                self._add(_Op(like, behind, OpKind.COMPUTE, share, lane, phase=phase))

    def _add(self, op: _Op) -> int:
        self.new.append(op)
        return self.count + len(self.new) - 1
