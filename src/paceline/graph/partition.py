"""`partitioned`: each exchange of gradients in several collectives, one behind the other.

Every part is handed over by a call of its own, behind the same gradients; who waited for the whole
waits for all parts.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from paceline.graph.copying import ragged
from paceline.graph.gradients import carrying, no_exchange
from paceline.graph.graph import Bool, Graph, Int64
from paceline.graph.kinds import NONE, UNPRICED, Collective, DepKind, DType, OpKind, Phase
from paceline.graph.links import Links
from paceline.graph.scaled import unpriced
from paceline.graph.splice import Added, spliced

ITEM_BYTES = {DType.FLOAT64: 8, DType.FLOAT16: 2, DType.BFLOAT16: 2, DType.UINT8: 1, DType.INT8: 1}
"""Of a value on the wire; of other types 4."""


def partitioned(graph: Graph, parts_of: Callable[[int], int]) -> Graph:
    """`parts_of` says by a collective's bytes in how many parts it travels."""
    links = Links.of(graph)
    calls = carrying(graph, links)
    if not len(calls):
        raise no_exchange(
            graph,
            "the recording does not say which collectives carry gradients, so they cannot be cut "
            "in parts. Record a job under DDP with `paceline record`.",
        )
    parts = _parts(graph, calls, parts_of)
    more = parts.count - 1
    whole = np.repeat(calls, more)
    launch = _launches(graph, links)[whole]
    handed, count = np.flatnonzero(launch != NONE), len(graph)
    call = count + np.arange(len(whole))
    host = count + len(whole) + np.arange(len(handed))
    copies = _Copies(whole, call, ragged(np.zeros_like(more), more), launch != NONE)
    joined = links.joined(_linked(links, copies))
    joined = joined.joined(Links.all_of(call[handed], host, DepKind.LAUNCH))
    rest = parts.sizes[ragged(parts.first + 1, more)]
    new = {
        "size_bytes": np.concatenate([rest, graph.ops.size_bytes[launch[handed]]]),
        "instance": np.concatenate(
            [_instances(graph, whole, copies.turn), np.full(len(handed), NONE)]
        ),
        "dur_ns": np.concatenate([np.full(len(whole), UNPRICED), graph.ops.dur_ns[launch[handed]]]),
    }
    behind = np.concatenate([whole, launch[handed]])
    added = Added(behind, behind, new)
    return spliced(_first(graph, calls, parts), np.zeros(count, np.bool_), added, joined)


@dataclass(frozen=True, eq=False)
class _Parts:
    """Bytes of the parts of several collectives: so many of each, in `sizes` from `first` on."""

    sizes: Int64
    first: Int64
    count: Int64


@dataclass(frozen=True, eq=False)
class _Copies:
    """New collectives: what each is a part of, its id, and whether it has a call of its own."""

    whole: Int64
    part: Int64
    turn: Int64  # which of its collective's new parts it is
    called: Bool


def part_sizes(count: int, parts: int) -> list[int]:
    """Values in each part, as `torch.tensor_split` cuts them; none is empty."""
    parts = max(1, min(parts, count))
    return [count // parts + (at < count % parts) for at in range(parts)]


def _parts(graph: Graph, calls: Int64, parts_of: Callable[[int], int]) -> _Parts:
    """Of each collective. What is gathered is cut member by member."""
    ops, known, row = graph.ops, list[list[int]](), dict[tuple[int, ...], int]()
    members = np.array([len(group.ranks) for group in graph.groups])[ops.group[calls]]
    members[ops.collective[calls] != Collective.ALL_GATHER] = 1
    keys = np.stack([ops.size_bytes[calls], ops.dtype[calls], members], axis=1)
    which = np.empty(len(calls), np.int64)
    for at, (size_bytes, dtype, many) in enumerate(keys.tolist()):
        key = size_bytes, dtype, many
        if key not in row:
            row[key] = len(known)
            known.append(_sizes(size_bytes, many * ITEM_BYTES.get(DType(dtype), 4), parts_of))
        which[at] = row[key]
    count = np.array([len(sizes) for sizes in known])
    flat = np.array([size for sizes in known for size in sizes], np.int64)
    return _Parts(flat, (np.cumsum(count) - count)[which], count[which])


def _sizes(size_bytes: int, item: int, parts_of: Callable[[int], int]) -> list[int]:
    """Of whole items, but for the last."""
    found = [n * item for n in part_sizes(size_bytes // item, parts_of(size_bytes))]
    found[-1] += size_bytes - sum(found)
    return found


def _first(graph: Graph, calls: Int64, parts: _Parts) -> Graph:
    """The collectives that were there, as their first parts."""
    size = graph.ops.size_bytes.copy()
    size[calls] = parts.sizes[parts.first]
    cut = calls[parts.count > 1]
    return unpriced(replace(graph, ops=replace(graph.ops, size_bytes=size)), cut)


def _launches(graph: Graph, links: Links) -> Int64:
    """By collective: the host's call that hands it over and nothing else; NONE where none does."""
    ops, found = graph.ops, np.full(len(graph), NONE, np.int64)
    calls = (ops.kind == OpKind.HOST) & (ops.phase == Phase.COMMUNICATION) & (ops.tensor == NONE)
    launching = (links.kind == DepKind.LAUNCH) & calls[links.src]
    found[links.op[launching]] = links.src[launching]
    return found


def _linked(links: Links, copies: _Copies) -> Links:
    """Every part waits as the whole does, and is waited for like it."""
    count = int(max(links.op.max(initial=0), links.src.max(initial=0))) + 1
    many = np.bincount(copies.whole, minlength=count)  # new parts of each op
    first = np.zeros(count, np.int64)
    first[copies.whole[::-1]] = copies.part[::-1]
    called = np.zeros(count, np.bool_)
    called[copies.whole[copies.called]] = True
    of_op, of_src = many[links.op], many[links.src]
    into = np.where(called[links.op] & (links.kind == DepKind.LAUNCH), 0, of_op)
    times = np.maximum(into, of_src)
    row, turn = np.repeat(np.arange(len(times)), times), ragged(np.zeros_like(times), times)
    by_turn = np.argsort(turn, kind="stable")
    row, turn = row[by_turn], turn[by_turn]
    made = links.where(row)
    return Links(
        np.where(turn < of_op[row], first[made.op] + turn, made.op),
        np.where(turn < of_src[row], first[made.src] + turn, made.src),
        made.kind,
        made.inferred,
    )


def _instances(graph: Graph, whole: Int64, turn: Int64) -> Int64:
    """Part k of one collective is one instance on all ranks."""
    first = int(graph.ops.instance.max(initial=NONE)) + 1
    keys = graph.ops.instance[whole] * (np.int64(1) + turn.max(initial=0)) + turn
    return first + np.unique(keys, return_inverse=True)[1]
