"""`overlapped`: products whose sum over tensor-parallel ranks travels beside those of later rows.

A product becomes as many ops as there are chunks of its rows, and its all-reduce as many
collectives, each behind its own chunk. Who waited for the whole waits for all. Two ranks swap their
chunks over a connection of their own: a message each way, at once, which no thread of the library
carries.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from paceline.errors import GraphError
from paceline.graph.graph import Bool, Graph, Int64, UInt8
from paceline.graph.kinds import NONE, UNPRICED, Axis, Collective, DepKind, LaneKind, OpKind, Phase
from paceline.graph.links import Links
from paceline.graph.partition import part_sizes
from paceline.graph.scaled import unpriced
from paceline.graph.splice import Added, spliced


@dataclass(frozen=True)
class ProductAndSum:
    """On one rank: a product, and the collective that sums it."""

    product: int
    call: int


def overlapped(graph: Graph, products: Bool, others: Bool, chunks: int) -> Graph:
    """The graph with all-reduces of products overlapped; `products` are ops that multiply, `others`
    those that compute something else."""
    links = Links.of(graph)
    pairs = list(_pairs(graph, links, products, others))
    if not pairs:
        raise GraphError(
            "no sum of a product over tensor-parallel ranks is seen in this job, so there is none "
            "to overlap. Record a job whose layers are cut by inputs (RowwiseParallel), on the "
            "communication library's own threads"
        )
    work = _Work(graph, links, pairs, chunks)
    return work.graph_of()


def _pairs(graph: Graph, links: Links, products: Bool, others: Bool) -> Iterator[ProductAndSum]:
    """Each collective of the forward pass behind a product, with no other operator between the two:
    copies into what is sent, and the framework's own calls, are none."""
    ops = graph.ops
    operators = (products | others) & (ops.dur_ns > 0)
    groups = [row for row, group in enumerate(graph.groups) if group.axis is Axis.TENSOR]
    calls = (ops.kind == OpKind.COLLECTIVE) & np.isin(ops.group, groups)
    calls &= ops.collective == Collective.ALL_REDUCE
    apart = graph.lanes.kind[ops.lane] == LaneKind.COMM_THREAD
    for call in np.flatnonzero(calls & apart).tolist():
        mine = links.src[(links.op == call) & (ops.rank[links.src] == ops.rank[call])]
        asked = int(mine.max(initial=NONE))
        lane = np.flatnonzero(ops.lane[: asked + 1] == ops.lane[asked]) if asked != NONE else mine
        before = lane[operators[lane] & (ops.step[lane] == ops.step[call])]
        last = int(before.max(initial=NONE))
        if last != NONE and products[last] and ops.phase[last] == Phase.FORWARD:
            yield ProductAndSum(last, call)


@dataclass
class _Work:
    """Cuts each pair."""

    graph: Graph
    links: Links
    pairs: list[ProductAndSum]
    chunks: int

    def graph_of(self) -> Graph:
        ops, count, more = self.graph.ops, len(self.graph), self.chunks - 1
        product = np.array([pair.product for pair in self.pairs], np.int64)
        call = np.array([pair.call for pair in self.pairs], np.int64)
        dur = np.array([part_sizes(int(d), self.chunks) for d in ops.dur_ns[product]], np.int64)
        size = np.array([part_sizes(int(s), self.chunks) for s in ops.size_bytes[call]], np.int64)
        like = np.concatenate([np.repeat(product, more), np.repeat(call, more)])
        first = count + more * np.arange(len(self.pairs))
        later = first + more * len(self.pairs)  # of calls
        turn = np.tile(np.arange(more), len(self.pairs))
        how = self._sums(call)
        columns = {
            "collective": np.concatenate([ops.collective[like[: len(turn)]], np.repeat(how, more)]),
            "dur_ns": np.concatenate([dur[:, 1:].ravel(), np.full(len(turn), UNPRICED)]),
            "size_bytes": np.concatenate(
                [np.repeat(ops.size_bytes[product] // self.chunks, more), size[:, 1:].ravel()]
            ),
            "flops": ops.flops[like] // self.chunks,
            "instance": np.concatenate([np.full(len(turn), NONE), self._instances(call, turn)]),
            "tensor": np.full(len(like), NONE),
        }
        changed_dur, changed_size = ops.dur_ns.copy(), ops.size_bytes.copy()
        changed_dur[product], changed_size[call] = dur[:, 0], size[:, 0]
        changed_how = ops.collective.copy()
        changed_how[call] = how
        changed = replace(ops, dur_ns=changed_dur, size_bytes=changed_size, collective=changed_how)
        made = replace(self.graph, ops=changed)
        links = self._linked(product, call, first, later)
        added = Added(like, like, columns)
        return spliced(unpriced(made, call), np.zeros(count, np.bool_), added, links)

    def _sums(self, call: Int64) -> UInt8:
        """How each chunk of these calls is summed."""
        groups = self.graph.ops.group[call].tolist()
        two = np.array([len(self.graph.groups[group].ranks) == 2 for group in groups])
        swapped = np.where(two, Collective.POINT_TO_POINT, Collective.ALL_REDUCE)
        return swapped.astype(self.graph.ops.collective.dtype)

    def _instances(self, call: Int64, turn: Int64) -> Int64:
        """Chunk k of one collective is one instance on all ranks."""
        ops = self.graph.ops
        keys = np.stack([np.repeat(ops.instance[call], self.chunks - 1), turn])
        numbers = np.unique(keys, axis=1, return_inverse=True)[1].reshape(-1)
        return int(ops.instance.max(initial=NONE)) + 1 + numbers

    def _linked(self, product: Int64, call: Int64, first: Int64, later: Int64) -> Links:
        """The first part behind the first chunk, in place of what handed the whole over."""
        links, ops, more = self.links, self.graph.ops, self.chunks - 1
        own = np.isin(links.op, call) & (ops.rank[links.op] == ops.rank[links.src])
        src = links.src.copy()
        before = np.full(len(self.graph), NONE, np.int64)
        before[call] = product
        src[own] = before[links.op[own]]
        made = Links(links.op, src, links.kind, links.inferred)
        for turn in range(more):
            made = made.joined(Links.all_of(later + turn, first + turn, DepKind.DATA))
            place = np.full(len(self.graph), NONE, np.int64)
            place[call] = later + turn
            waits = place[links.src] != NONE
            made = made.joined(Links.all_of(links.op[waits], place[links.src[waits]], DepKind.WAIT))
        return made
