"""`updated_late`: each bucket of gradients is waited for, and its parameters are updated, before
the next step's first forward op of a layer that has one of them.

The waits at the end of backward go, and so does the update behind them, whose time the buckets
share by their bytes; on a device each takes a launch of its own. The first step begins
with no update, and what the last one leaves to do is left out. A graph of one step is repeated, for
it has no next.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from paceline.errors import GraphError
from paceline.graph.condense import STEPS, repeated_alone
from paceline.graph.gradients import carrying, not_told, parameters_in
from paceline.graph.graph import Bool, Graph, Int64
from paceline.graph.kinds import COMMUNICATION, NONE, DepKind, LaneKind, OpKind, Phase
from paceline.graph.links import Links
from paceline.graph.membership import among, of_kinds
from paceline.graph.scaled import works
from paceline.graph.splice import Added, spliced

_TALKS = of_kinds(COMMUNICATION)


def updated_late(graph: Graph) -> Graph:
    """The graph with every update in the step behind its own."""
    if len(np.unique(graph.ops.step)) < 2:
        graph = repeated_alone(graph, STEPS)
    links = Links.of(graph)
    buckets = _buckets(graph, links)
    if not buckets:
        raise GraphError(
            "the recording does not say which collectives carry gradients, so nothing can be "
            "updated as they arrive. Record a job under DDP with `paceline record`."
        )
    _require_layers(graph, buckets)
    work = _Work(graph, links)
    for rank in graph.ranks:
        steps = np.unique(graph.ops.step[graph.ops.rank == rank]).tolist()
        for step, following in zip(steps, [*steps[1:], NONE]):
            mine = [b for b in buckets if (b.rank, b.step) == (rank, step)]
            if mine:
                work.change(mine, following)
    return work.graph_made()


@dataclass(frozen=True)
class Bucket:
    """Gradients of one rank's step that arrive together."""

    rank: int
    step: int
    parameters: frozenset[int]
    layers: frozenset[str]
    size_bytes: int
    brings: tuple[int, ...]  # the ops with which they are there: one, or one for each part


def shares(total: int, sizes: Sequence[int]) -> list[int]:
    """A whole cut by sizes, to the last one of it."""
    ends = np.rint(total * np.cumsum(sizes) / max(1, sum(sizes))).astype(np.int64)
    found: list[int] = np.diff(ends, prepend=0).tolist()
    return found


def _buckets(graph: Graph, links: Links) -> list[Bucket]:
    """In the order in which they are handed over."""
    there = _there(graph, links)
    carried = parameters_in(graph, links)
    calls = carrying(graph, links).tolist()
    if not carried.keys() >= set(calls):
        raise not_told()
    found: dict[tuple[int, int, frozenset[int]], list[int]] = {}
    for call in calls:
        key = int(graph.ops.rank[call]), int(graph.ops.step[call]), frozenset(carried[call])
        found.setdefault(key, []).append(int(there[call]))
    told = graph.facts.parameters
    owner, size = [p.name.rpartition(".")[0] for p in told], [p.size_bytes for p in told]
    each = {parameters for _, _, parameters in found}  # alike on all ranks and in all steps
    layers = {parameters: frozenset(owner[p] for p in parameters) for parameters in each}
    sizes = {parameters: sum(size[p] for p in parameters) for parameters in each}
    return [
        Bucket(rank, step, parameters, layers[parameters], sizes[parameters], tuple(brings))
        for (rank, step, parameters), brings in found.items()
    ]


def _there(graph: Graph, links: Links) -> Int64:
    """By collective: itself, or the op that unpacks what it brought."""
    ops, found = graph.ops, np.arange(len(graph))
    unpacks = (ops.kind == OpKind.COMPUTE) & (ops.phase == Phase.COMMUNICATION)
    rows = _TALKS[ops.kind[links.src]] & unpacks[links.op] & (links.kind == DepKind.DATA)
    found[links.src[rows]] = links.op[rows]
    return found


def _require_layers(graph: Graph, buckets: Sequence[Bucket]) -> None:
    forward = np.unique(graph.ops.layer[graph.ops.phase == Phase.FORWARD])
    known = {graph.text(layer) for layer in forward.tolist()}
    if not any(bucket.layers & known for bucket in buckets):
        raise GraphError(
            "the recording does not say which op of the forward pass belongs to which layer, so "
            "it is not known when a parameter is needed. Record the job with `paceline record`."
        )


class _Op(NamedTuple):
    """A new op."""

    like: int  # the op that it takes its other columns from
    behind: int
    kind: int  # OpKind
    lane: int
    dur_ns: int
    step: int
    layer: int = NONE
    tensor: int = NONE


@dataclass
class _Work:
    """Goes over the ranks and steps, and collects what is gone and what is new."""

    graph: Graph
    links: Links
    new: list[_Op] = field(default_factory=list)
    rows: list[tuple[int, int, DepKind]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.gone: Bool = np.zeros(len(self.graph), np.bool_)
        self.dropped: Bool = np.zeros(len(self.links.op), np.bool_)
        self.streams = self.graph.lanes.kind == LaneKind.STREAM

    def graph_made(self) -> Graph:
        columns = dict(
            zip(_Op._fields, np.array(self.new, np.int64).reshape(-1, len(_Op._fields)).T)
        )
        like, behind = columns.pop("like"), columns.pop("behind")
        columns["phase"] = np.full(len(like), Phase.UPDATE)
        links = self.links.where(~self.dropped)
        for kind in sorted({kind for _, _, kind in self.rows}):
            part = np.array([(op, src) for op, src, k in self.rows if k is kind], np.int64)
            links = links.joined(Links.all_of(part[:, 0], part[:, 1], kind))
        return spliced(self.graph, self.gone, Added(like, behind, columns), links)

    def change(self, buckets: Sequence[Bucket], following: int) -> None:
        """One rank's step: nothing waits at its end, and the updates go into the following one."""
        update = self._without_waits(buckets)
        self.gone[update] = True
        if following == NONE:
            return
        kernels = self.streams[self.graph.ops.lane[update]]
        work = update[kernels] if kernels.any() else update
        calls = update[~kernels] if kernels.any() else update[:0]
        whole = int(np.maximum(self.graph.ops.dur_ns[work], 0).sum())
        first = self._first_uses(buckets[0].rank, following)
        for bucket, share in zip(buckets, shares(whole, [b.size_bytes for b in buckets])):
            named = [first[layer] for layer in bucket.layers if layer in first]
            use = min(named or first.values())  # of unknown layers the first of all
            like = int(work[0]) if len(work) else use
            if self.streams[self.graph.ops.lane[use]]:
                self._launched(bucket, _Place(use, like, share), calls)
            else:
                self._on_thread(bucket, _Place(use, like, share))

    def _without_waits(self, buckets: Sequence[Bucket]) -> Int64:
        """Drop what waits for the buckets; the update's ops behind the first wait."""
        ops, links = self.graph.ops, self.links
        brings = among(len(self.graph), np.array([op for b in buckets for op in b.brings]))
        waiting = brings[links.src] & ~_TALKS[ops.kind[links.op]]
        self.dropped |= waiting
        mine = (ops.rank == buckets[0].rank) & (ops.step == buckets[0].step)
        mine &= (ops.phase == Phase.UPDATE) & works(self.graph)
        first = links.op[waiting].min(initial=len(self.graph))
        return np.flatnonzero(mine & (np.arange(len(self.graph)) >= first))

    def _first_uses(self, rank: int, step: int) -> dict[str, int]:
        """By layer: its first forward op."""
        ops = self.graph.ops
        forward = (ops.rank == rank) & (ops.step == step) & (ops.phase == Phase.FORWARD)
        rows = np.flatnonzero(forward & (ops.kind == OpKind.COMPUTE))
        layers, at = np.unique(ops.layer[rows], return_index=True)
        return {self.graph.text(k): int(rows[i]) for k, i in zip(layers.tolist(), at.tolist())}

    def _on_thread(self, bucket: Bucket, at: "_Place") -> None:
        lane, step = int(self.graph.ops.lane[at.use]), int(self.graph.ops.step[at.use])
        wait = self._add(_Op(at.like, at.use - 1, OpKind.WAIT, lane, 0, step))
        self._add(_Op(at.like, at.use - 1, OpKind.COMPUTE, lane, at.dur_ns, step))
        self.rows += [(wait, op, DepKind.WAIT) for op in bucket.brings]

    def _launched(self, bucket: Bucket, at: "_Place", calls: Int64) -> None:
        ops, links = self.graph.ops, self.links
        step = int(ops.step[at.use])
        kernel = self._add(
            _Op(at.like, at.use - 1, OpKind.COMPUTE, int(ops.lane[at.use]), at.dur_ns, step)
        )
        awaited = links.src[(links.op == at.use) & (links.kind == DepKind.EVENT) & ~self.dropped]
        self.rows += [(kernel, op, DepKind.EVENT) for op in (*bucket.brings, *awaited.tolist())]
        launch = links.src[(links.op == at.use) & (links.kind == DepKind.LAUNCH)]
        if len(launch) and len(calls):
            host, mean = int(launch[0]), round(float(ops.dur_ns[calls].mean()))
            lane = int(ops.lane[host])
            call = self._add(_Op(int(calls[0]), host - 1, OpKind.HOST, lane, mean, step))
            self.rows.append((kernel, call, DepKind.LAUNCH))

    def _add(self, op: _Op) -> int:
        self.new.append(op)
        return len(self.graph) + len(self.new) - 1


@dataclass(frozen=True)
class _Place:
    """Where an update goes, what it is like, and how long it takes."""

    use: int
    like: int
    dur_ns: int


__all__ = ["Bucket", "shares", "updated_late"]
