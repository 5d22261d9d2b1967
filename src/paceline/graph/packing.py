"""`packed`: gradients that travel in another form, between an op that packs and one that unpacks.

Packing stands on the thread or stream behind a bucket's last gradient, unpacking on the
communication lane behind the collective; who waited for the collective waits for the unpacking.
Both are unpriced, by the bytes that they touch or by a measured table of their name.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from paceline.errors import GraphError
from paceline.graph.border import UNSCALED
from paceline.graph.gradients import reducing
from paceline.graph.graph import Graph, Int64
from paceline.graph.kinds import NONE, UNPRICED, Collective, DepKind, DType, OpKind, Phase
from paceline.graph.links import Links
from paceline.graph.scaled import unpriced
from paceline.graph.splice import Added, spliced


@dataclass(frozen=True)
class Packing:
    """A form of gradients as a graph sees it."""

    name: str  # the ops are called `pack NAME` and `unpack NAME`
    dtype: DType  # of what travels
    gathers: bool  # every rank gets all payloads, where they cannot be added up on the way
    feedback: bool  # packing also reads and writes what was left out
    payload_bytes: Callable[[int], int]  # by how many gradients there are


def packed(graph: Graph, packing: Packing) -> Graph:
    """The graph with every bucket of gradients in that form."""
    links = Links.of(graph)
    calls = reducing(graph, links)
    _require_plain(graph, calls)
    fed = links.kind == DepKind.GRADIENT
    last = np.full(len(graph), NONE, np.int64)
    np.maximum.at(last, links.op[fed], links.src[fed])
    first = len(graph)
    pack, unpack = first + np.arange(len(calls)), first + len(calls) + np.arange(len(calls))
    place = np.arange(len(graph), dtype=np.int64)
    into, behind = place.copy(), place.copy()
    into[calls], behind[calls] = pack, unpack
    moved = Links(
        np.where(fed, into[links.op], links.op), behind[links.src], links.kind, links.inferred
    )
    joined = moved.joined(Links.all_of(calls, pack, DepKind.DATA))
    joined = joined.joined(Links.all_of(unpack, calls, DepKind.DATA))
    stands = np.concatenate([last[calls], calls])
    added = Added(stands, stands, _columns(graph, calls, packing))
    changed = _sending(graph, calls, packing)
    return spliced(changed, np.zeros(len(graph), np.bool_), added, joined)


def _require_plain(graph: Graph, calls: Int64) -> None:
    if not len(calls):
        raise GraphError(
            "the recording does not say which collectives reduce gradients, or they already travel "
            "in another form. Record a job under DDP with `paceline record`."
        )
    kinds = {DType(d) for d in np.unique(graph.ops.dtype[calls])}
    if kinds != {DType.FLOAT32}:
        names = ", ".join(sorted(kind.name.lower() for kind in kinds))
        raise GraphError(f"only float32 gradients are packed, and this job reduces {names}")


def _payload(graph: Graph, calls: Int64, packing: Packing) -> Int64:
    counts = (graph.ops.size_bytes[calls] // 4).tolist()
    return np.array([packing.payload_bytes(count) for count in counts], np.int64)


def _members(graph: Graph, calls: Int64, packing: Packing) -> Int64:
    """How many payloads each rank is left with."""
    sizes = np.array([len(group.ranks) for group in graph.groups], np.int64)
    return sizes[graph.ops.group[calls]] if packing.gathers else np.ones(len(calls), np.int64)


def _columns(graph: Graph, calls: Int64, packing: Packing) -> dict[str, Int64]:
    """Packing reads the gradient, and writes it averaged and its payload; with feedback it also
    reads and writes the memory twice."""
    count, grads = len(calls), graph.ops.size_bytes[calls]
    payload = _payload(graph, calls, packing)
    passes = 6 if packing.feedback else 3
    touched = passes * grads + payload
    restored = grads + _members(graph, calls, packing) * payload
    names = len(graph.names)
    return {
        "kind": np.full(2 * count, OpKind.COMPUTE),
        "phase": np.full(2 * count, Phase.COMMUNICATION),
        "dur_ns": np.full(2 * count, UNPRICED),
        "size_bytes": np.concatenate([touched, restored]),
        "flops": np.zeros(2 * count, np.int64),
        "group": np.full(2 * count, NONE),
        "instance": np.full(2 * count, NONE),
        "collective": np.full(2 * count, Collective.NONE),
        "dtype": np.full(2 * count, DType.FLOAT32),
        "name": np.repeat([names, names + 1], count),
        "tensor": np.full(2 * count, NONE),
        "scale_ppb": np.full(2 * count, UNSCALED),
    }


def _sending(graph: Graph, calls: Int64, packing: Packing) -> Graph:
    """The collectives with what then travels."""
    ops = graph.ops
    size, dtype, collective = ops.size_bytes.copy(), ops.dtype.copy(), ops.collective.copy()
    size[calls] = _payload(graph, calls, packing) * _members(graph, calls, packing)
    dtype[calls] = packing.dtype
    if packing.gathers:
        collective[calls] = Collective.ALL_GATHER
    names = (*graph.names, f"pack {packing.name}", f"unpack {packing.name}")
    made = replace(ops, size_bytes=size, dtype=dtype, collective=collective)
    return unpriced(replace(graph, ops=made, names=names), calls)
