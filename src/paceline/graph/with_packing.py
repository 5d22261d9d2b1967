"""`with_packing`: ops that bring what is kept into another form, and ops that bring it back.

Both are unpriced, by the bytes that they touch or by a measured table of their name. Of a device's
job they are kernels, each behind a call of its host.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from paceline.graph.border import UNSCALED
from paceline.graph.graph import Graph, Int64
from paceline.graph.kinds import NONE, UNPRICED, Collective, DepKind, DType, LaneKind, OpKind
from paceline.graph.links import Links
from paceline.graph.splice import Added, Sort, in_turn, spliced
from paceline.graph.work import Recorded, Work, copied, moved

_FLOAT_BYTES = 4


@dataclass(frozen=True)
class Form:
    """How activations are kept."""

    name: str  # the ops are called `pack NAME` and `unpack NAME`
    share: float  # of float32's bytes
    passes: int = 2  # over the values while they are packed: reading and writing
    scratch: float = 0.0  # room taken while packing, of float32's bytes
    kept: DType | None = None  # the type of what is kept, where restoring it is a cast
    calls: tuple[int, int] = (1, 1)  # of operators, to pack and to restore

    def packing(self, size_bytes: int) -> Work:
        """Of so many bytes of float32."""
        return moved((self.passes - 1) * size_bytes, round(size_bytes * self.share))

    def restoring(self, size_bytes: int) -> Work:
        if self.kept is not None:
            return copied(size_bytes // _FLOAT_BYTES, self.kept, DType.FLOAT32)
        return moved(round(size_bytes * self.share), size_bytes)


def with_packing(graph: Graph, places: Sequence[tuple[int, int, int]], form: Form) -> Graph:
    """The graph with ops that pack and restore: of each place behind which op, before which, and
    how many bytes."""
    behind, before, size_bytes = (np.array(column, np.int64) for column in zip(*places))
    sizes = size_bytes.tolist()
    works = [*map(form.packing, sizes), *map(form.restoring, sizes)]
    at = _Places(np.concatenate([behind, before]), np.repeat([0, -1], len(places)))
    names = (f"pack {form.name}", f"unpack {form.name}", f"call of {form.name}")
    named, rows = _with_works(replace(graph, names=(*graph.names, *names)), works, at.op)
    new = _New(works, rows, np.repeat(len(graph.names) + np.arange(2), len(places)))
    links = Links.of(graph)
    added, launches = _added(graph, at, new, _calls(links, at, form))
    return spliced(named, np.zeros(len(graph), np.bool_), added, links.joined(launches))


def _with_works(graph: Graph, works: Sequence[Work], beside: Int64) -> tuple[Graph, Int64]:
    """The graph with these works, and the row of each: NONE beside ops of a processor."""
    streams = graph.lanes.kind[graph.ops.lane[beside]] == LaneKind.STREAM
    if not streams.any():
        return graph, np.full(len(works), NONE, np.int64)
    place = {work: row for row, work in enumerate(dict.fromkeys(works), len(graph.works))}
    told = (Recorded("", work, inferred=True) for work in place)
    rows = np.array([place[work] for work in works], np.int64)
    return replace(graph, works=(*graph.works, *told)), np.where(streams, rows, NONE)


@dataclass(frozen=True, eq=False)
class _Places:
    """Beside which ops new ones stand: behind each, or (-1) before it."""

    op: Int64
    off: Int64


@dataclass(frozen=True, eq=False)
class _New:
    """What new ops work on, and what they are called."""

    works: Sequence[Work]
    row: Int64  # of the graph's works
    name: Int64


@dataclass(frozen=True, eq=False)
class _Calls:
    """Of which new kernels a host calls the operator, beside which of its ops, and how often."""

    of: Int64
    at: _Places
    times: Int64


def _calls(links: Links, at: _Places, form: Form) -> _Calls:
    """Kernels beside one that a host launched are launched there."""
    launches = links.where(links.kind == DepKind.LAUNCH)
    by = dict(zip(launches.op.tolist(), launches.src.tolist()))
    host = np.array([by.get(op, NONE) for op in at.op.tolist()], np.int64)
    of = np.flatnonzero(host != NONE)
    times = np.repeat(form.calls, len(at.op) // 2)
    return _Calls(of, _Places(host[of], at.off[of]), times[of])


def _added(graph: Graph, at: _Places, new: _New, calls: _Calls) -> tuple[Added, Links]:
    """And the links from calls to what they launch."""
    kernels = {
        "kind": int(OpKind.COMPUTE),
        "size_bytes": np.array([one.size_bytes for one in new.works], np.int64),
        "name": new.name,
        "work": new.row,
        "scale_ppb": UNSCALED,
    }
    hosts = {
        "kind": int(OpKind.HOST),
        "size_bytes": 0,
        "name": len(graph.names) + 2,
        "work": NONE,
        "scale_ppb": calls.times * UNSCALED,
    }
    sorts = [
        Sort(one.op, {**_ALIKE, "like": one.op, "behind": one.op + one.off, **columns})
        for one, columns in ((calls.at, hosts), (at, kernels))
    ]
    added, (call, kernel) = in_turn(len(graph), sorts)
    return added, Links.all_of(kernel[calls.of], call, DepKind.LAUNCH)


_ALIKE = {
    "dur_ns": UNPRICED,
    "flops": 0,
    "group": NONE,
    "instance": NONE,
    "collective": int(Collective.NONE),
    "dtype": int(DType.FLOAT32),
    "tensor": NONE,
}
