"""`packed`: gradients that travel in another form, between an op that packs and one that unpacks.

Packing stands on the thread or stream behind a bucket's last gradient, unpacking on the
communication lane behind the collective; who waited for the collective waits for the unpacking.
A codec that treats a bucket in pieces (each matrix, each parameter) has an op for every piece, for
each costs a start of its own. A codec may share a bucket in several rounds: a `repack` stands
before each that follows. All are unpriced, by the bytes that they touch or by a measured table of
their name.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np

from paceline.errors import GraphError
from paceline.graph.border import UNSCALED
from paceline.graph.buckets import Bucket, Needs, buckets_of
from paceline.graph.gradients import no_exchange, reducing, scattering
from paceline.graph.graph import Graph, Int64
from paceline.graph.kinds import NONE, UNPRICED, Collective, DepKind, DType, OpKind, Phase
from paceline.graph.links import Links
from paceline.graph.scaled import unpriced
from paceline.graph.splice import Added, spliced


def _undivided(bucket: Bucket) -> tuple[Bucket, ...]:
    return (bucket,)


@dataclass(frozen=True)
class Packing:
    """A form of gradients as a graph sees it."""

    name: str  # ops are called `pack NAME`, `repack NAME`, and `unpack NAME` or `add up NAME`
    dtype: DType  # of what travels
    gathers: bool  # every rank gets all payloads, where they cannot be added up on the way
    feedback: bool  # packing also reads and writes what was left out
    calls: Callable[[Bucket], tuple[int, ...]]  # bytes that a rank hands over, in each round
    needs: Needs = Needs.COUNT  # what `calls` must know of a bucket
    owners: int = 1  # ranks that each keep a part of the reduced gradients (FSDP2)
    pieces: Callable[[Bucket], tuple[Bucket, ...]] = _undivided  # worked on one after the other
    in_rounds: bool = False  # a bucket may travel in several
    dense: bool = False  # each gathered payload is added to all gradients, not to a few of them

    def cut(self, owners: int) -> "Packing":
        """The same where gradients are cut among owners: each rank packs every owner's part by
        itself and hands it over to that owner, who adds up what it got."""

        def calls(bucket: Bucket) -> tuple[int, ...]:
            part = Bucket(((bucket.count // owners,),), bucket.index)
            return (owners * self.calls(part)[0],)

        return replace(self, gathers=False, calls=calls, owners=owners, pieces=_undivided)

    @property
    def collective(self) -> Collective | None:
        """In place of the recorded one; None: as recorded."""
        if self.owners > 1:
            return Collective.ALL_TO_ALL
        return Collective.ALL_GATHER if self.gathers else None

    @property
    def adds_up(self) -> bool:
        """Whether unpacking adds up one payload of all gradients after the other."""
        return self.gathers and self.dense

    @property
    def unpacking(self) -> str:
        return "add up" if self.adds_up else "unpack"

    def members(self, ranks: int) -> int:
        """How many payloads each rank is left with."""
        return ranks if self.gathers else 1

    def pack_bytes(self, bucket: Bucket) -> int:
        """Touched by packing. It reads the gradient, and writes it averaged and its payload; with
        feedback it also reads and writes the memory twice."""
        return (6 if self.feedback else 3) * 4 * bucket.count + self.calls(bucket)[0]

    def repack_bytes(self, bucket: Bucket, round_: int) -> int:
        """Touched before a later round: all gradients, what came and what goes."""
        return 4 * bucket.count + sum(self.calls(bucket)[round_ - 1 : round_ + 1])

    def unpack_bytes(self, bucket: Bucket, ranks: int) -> int:
        """Touched by unpacking: all payloads, and the gradients that they stand for, which those
        that are dense read and write one after the other."""
        members = self.members(ranks)
        passes = 1 + 2 * members if self.adds_up else 1
        return passes * 4 * bucket.count // self.owners + members * self.calls(bucket)[-1]


def packed(graph: Graph, packing: Packing) -> Graph:
    """The graph with every bucket of gradients in that form."""
    links = Links.of(graph)
    calls = reducing(graph, links)
    if not len(calls):
        calls, packing = _cut(graph, links, packing)
    _require_plain(graph, calls)
    work = _Work(graph, packing, links)
    for call, bucket in zip(calls.tolist(), buckets_of(graph, links, calls, packing.needs)):
        work.change(call, bucket)
    return work.graph_of(calls)


def _cut(graph: Graph, links: Links, packing: Packing) -> tuple[Int64, Packing]:
    """The calls that reduce gradients which ranks cut among themselves, and how they are packed."""
    calls = scattering(graph, links)
    if not len(calls):
        return calls, packing
    if packing.needs is not Needs.COUNT:
        raise GraphError(
            f"{packing.name} treats each parameter by itself, and FSDP2 reduces one vector of the "
            "parts of many. Take a codec of whole buckets, or layerwise=False"
        )
    if packing.in_rounds:
        raise GraphError(
            f"{packing.name} shares a bucket in two rounds, and FSDP2 reduces in one. Take a codec "
            "of one round"
        )
    return calls, packing.cut(len(graph.groups[int(graph.ops.group[calls[0]])].ranks))


class _Op(NamedTuple):
    """A new op; its id is `len(graph)` and its place in the list."""

    like: int  # the op that it takes its other columns from
    behind: int
    kind: OpKind
    size_bytes: int
    name: int
    instance: int = NONE


@dataclass
class _Work:
    """Goes over the calls, and collects what is new and what changes."""

    graph: Graph
    packing: Packing
    links: Links
    new: list[_Op] = field(default_factory=list)
    rows: list[tuple[int, int]] = field(default_factory=list)  # new: which op waits for which
    sizes: list[int] = field(default_factory=list)  # of the calls that stay
    ends: list[tuple[int, int]] = field(default_factory=list)  # of each call: packing, unpacking
    instances: dict[tuple[int, int], int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        fed = self.links.kind == DepKind.GRADIENT
        self.last = np.full(len(self.graph), NONE, np.int64)
        np.maximum.at(self.last, self.links.op[fed], self.links.src[fed])
        self.free = int(self.graph.ops.instance.max(initial=NONE)) + 1

    def change(self, call: int, bucket: Bucket) -> None:
        """Pack, the call, and for each later round repack and another call; then unpack."""
        packing, ranks = self.packing, len(self.graph.groups[int(self.graph.ops.group[call])].ranks)
        sizes = [size * packing.members(ranks) for size in packing.calls(bucket)]
        pieces, last = packing.pieces(bucket), int(self.last[call])
        pack = self._worked(last, _PACK, map(packing.pack_bytes, pieces))
        self.rows.append((call, pack))
        before = call
        for round_, size in enumerate(sizes[1:], 1):
            again = [p for p in pieces if len(packing.calls(p)) > round_]
            touched = (packing.repack_bytes(p, round_) for p in again)
            repack = self._worked(call, _REPACK, touched, before)
            instance = self._instance(call, round_)
            before = self._add(_Op(call, call, OpKind.COLLECTIVE, size, _SAME, instance), repack)
        restored = (packing.unpack_bytes(p, ranks) for p in pieces)
        unpack = self._worked(call, _UNPACK, restored, before)
        self.sizes.append(sizes[0])
        self.ends.append((pack, unpack))

    def _worked(self, like: int, name: int, touched: Iterable[int], before: int = NONE) -> int:
        """One op a piece, each behind the one before; the last of them."""
        for size in touched:
            before = self._add(_Op(like, like, OpKind.COMPUTE, size, name), before)
        return before

    def graph_of(self, calls: Int64) -> Graph:
        """The changed graph."""
        links, joined = self.links, np.array(self.rows, np.int64)
        into = np.arange(len(self.graph), dtype=np.int64)
        behind = into.copy()
        into[calls], behind[calls] = np.array(self.ends, np.int64).T
        fed = links.kind == DepKind.GRADIENT
        op = np.where(fed, into[links.op], links.op)
        moved = Links(op, behind[links.src], links.kind, links.inferred)
        moved = moved.joined(Links.all_of(joined[:, 0], joined[:, 1], DepKind.DATA))
        like = np.array([op.like for op in self.new], np.int64)
        stands = np.array([op.behind for op in self.new], np.int64)
        added = Added(like, stands, self._columns())
        gone = np.zeros(len(self.graph), np.bool_)
        return spliced(self._sending(calls), gone, added, moved)

    def _add(self, op: _Op, after: int = NONE) -> int:
        self.new.append(op)
        row = len(self.graph) + len(self.new) - 1
        if after != NONE:
            self.rows.append((row, after))
        return row

    def _instance(self, call: int, round_: int) -> int:
        key = (int(self.graph.ops.instance[call]), round_)
        return self.instances.setdefault(key, self.free + len(self.instances))

    def _columns(self) -> dict[str, Int64]:
        ops, new = self.graph.ops, self.new
        talks = np.array([op.kind is OpKind.COLLECTIVE for op in new])
        like = np.array([op.like for op in new], np.int64)
        names = np.array([op.name for op in new], np.int64)
        columns = {name: np.array([getattr(op, name) for op in new], np.int64) for name in _TOLD}
        return {
            **columns,
            "name": np.where(talks, ops.name[like], names + len(self.graph.names)),
            "phase": np.full(len(new), Phase.COMMUNICATION),
            "dur_ns": np.full(len(new), UNPRICED),
            "flops": np.zeros(len(new), np.int64),
            "group": np.where(talks, ops.group[like], NONE),
            "collective": np.where(talks, self._collective(like), Collective.NONE),
            "dtype": np.where(talks, self.packing.dtype, DType.FLOAT32),
            "tensor": np.full(len(new), NONE),
            "scale_ppb": np.full(len(new), UNSCALED),
            "work": np.full(len(new), NONE),
        }

    def _collective(self, rows: Int64) -> Int64:
        found = self.graph.ops.collective[rows].astype(np.int64)
        other = self.packing.collective
        return found if other is None else np.full(len(rows), other, np.int64)

    def _sending(self, calls: Int64) -> Graph:
        """The collectives with what then travels."""
        ops, name, last = self.graph.ops, self.packing.name, self.packing.unpacking
        size, dtype, collective = ops.size_bytes.copy(), ops.dtype.copy(), ops.collective.copy()
        size[calls], dtype[calls] = self.sizes, self.packing.dtype
        collective[calls] = self._collective(calls)
        names = (*self.graph.names, f"pack {name}", f"repack {name}", f"{last} {name}")
        made = replace(ops, size_bytes=size, dtype=dtype, collective=collective)
        return unpriced(replace(self.graph, ops=made, names=names), calls)


def _require_plain(graph: Graph, calls: Int64) -> None:
    if not len(calls):
        raise no_exchange(
            graph,
            "the recording does not say which collectives reduce gradients, or they already travel "
            "in another form. Record a job under DDP with `paceline record`.",
        )
    kinds = {DType(d) for d in np.unique(graph.ops.dtype[calls])}
    if kinds != {DType.FLOAT32}:
        names = ", ".join(sorted(kind.name.lower() for kind in kinds))
        raise GraphError(f"only float32 gradients are packed, and this job reduces {names}")


_PACK, _REPACK, _UNPACK, _SAME = 0, 1, 2, 0
_TOLD = ("kind", "size_bytes", "instance")

__all__ = ["Bucket", "Needs", "Packing", "packed"]
