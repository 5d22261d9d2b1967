"""`with_pair_exchange`: the new collectives of a job whose workers share pairs.

A thread packs a worker's rows, hands them over, waits for the others' and takes them in; on a
device a kernel waits in its place. Reductions of parts go beside the backward pass, and the update
waits for them.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from paceline.graph.buffers import with_buffers
from paceline.graph.facts import Facts, Parameter
from paceline.graph.graph import Graph, Group, Int64, MemoryEvents
from paceline.graph.kinds import (
    NONE,
    UNPRICED,
    Axis,
    Collective,
    DepKind,
    Discipline,
    DType,
    LaneKind,
    OpKind,
    Phase,
)
from paceline.graph.links import Links
from paceline.graph.new_calls import PLAIN, handed_ns
from paceline.graph.own_lanes import more_lanes
from paceline.graph.rank_steps import RankSteps, firsts
from paceline.graph.rebucket.source import launcher_of, source_of
from paceline.graph.shared_pairs.calls import PairCalls, PartCalls, pair_calls, part_calls
from paceline.graph.shared_pairs.pairs import SharedPair
from paceline.graph.splice import Sort, in_turn, spliced

_NAMES = ("take own rows", "hand rows over", "rows of a pair", "wait for rows", "take rows in",
          "hand a part over", "reduce a part", "wait for a part")  # fmt: skip


@dataclass(frozen=True, eq=False)
class Talk:
    """How the job talks before its pairs are cut."""

    lanes: Int64  # by rank: one on which it reduces gradients
    handed_ns: int  # what a thread takes to hand a collective over


def talk_of(graph: Graph) -> Talk:
    source = source_of(graph)
    first = source.first[source.first != NONE]
    lanes = firsts(graph.ops.rank[first], graph.ops.lane[first], graph.world_size)
    return Talk(lanes, handed_ns(graph, source))


@dataclass(frozen=True, eq=False)
class _New:
    """What the new ops are made of."""

    graph: Graph  # with their names, lanes and groups
    talk: Talk
    degree: int
    steps: RankSteps
    launcher: Int64

    def instances(self, step: Int64, number: Int64) -> Int64:
        """What joins the ranks' parts of calls of a step, numbered within their group."""
        keys = np.stack([self.steps.step[step], number])
        joined: Int64 = np.unique(keys, axis=1, return_inverse=True)[1].reshape(-1)
        return joined


def with_pair_exchange(
    graph: Graph, talk: Talk, pairs: Sequence[SharedPair], cut: Sequence[Parameter], degree: int
) -> Graph:
    """Behind the job whose parts are cut; `talk` is of the job before, `cut` what was cut."""
    world = graph.world_size
    calls = pair_calls(graph, pairs, degree)
    sizes = {p.name: p.size_bytes // degree for p in cut}
    parts = part_calls(graph, sizes if world > degree else {})
    lanes = more_lanes(graph.lanes, talk.lanes, "pairs", Discipline.RECORDED)
    made = replace(
        graph,
        names=(*graph.names, *_NAMES),
        lanes=more_lanes(lanes, talk.lanes, "parts", Discipline.RECORDED),
        groups=(*graph.groups, *_groups(world, degree)),
        facts=_told(graph, degree),
        memory=_with_rows(graph, calls, degree),
    )
    links = Links.of(made)
    new = _New(made, talk, degree, RankSteps.of(made), launcher_of(made, links))
    return _spliced(new, links, calls, parts, len(graph.lanes), len(graph.groups))


def _groups(world: int, degree: int) -> list[Group]:
    """Those that share pairs, by their first rank; then those that hold the same part."""
    sharers = [tuple(range(first, first + degree)) for first in range(0, world, degree)]
    holders = [tuple(range(part, world, degree)) for part in range(degree)]
    return [
        *(Group(f"tensor {ranks[0]}", ranks, Axis.TENSOR) for ranks in sharers),
        *(Group(f"part {ranks[0]}", ranks, Axis.DATA) for ranks in holders if world > degree),
    ]


def _told(graph: Graph, degree: int) -> Facts:
    """Groups that share pairs talk at the same time, and so do those that hold parts."""
    shifts = {
        Axis.TENSOR: tuple(range(0, graph.world_size, degree)),
        Axis.DATA: tuple(range(degree)),
    }
    return replace(graph.facts, siblings={**graph.facts.siblings, **shifts})


def _with_rows(graph: Graph, calls: PairCalls, degree: int) -> MemoryEvents:
    """The other workers' rows are kept from an entry on until its gradient is known."""
    entry = np.flatnonzero(calls.until != NONE)
    size = calls.size_bytes[entry] // degree * (degree - 1)
    return with_buffers(graph, calls.anchor[entry], calls.until[entry], size)


def _spliced(
    new: _New, links: Links, calls: PairCalls, parts: PartCalls, lane: int, group: int
) -> Graph:
    graph, world = new.graph, new.graph.world_size
    rank = new.steps.rank
    on_device = graph.lanes.kind[graph.ops.lane[calls.anchor]] == LaneKind.STREAM
    thread, device = np.flatnonzero(~on_device), np.flatnonzero(on_device)
    every, size = np.arange(len(calls.step)), calls.size_bytes
    own, taken = 2 * size // new.degree, _taken_in(calls, new.degree)
    update = _updates(new, parts)
    waits = np.flatnonzero(update != NONE)
    sharers = rank[calls.step] // new.degree
    holders = rank[parts.step] % new.degree
    sorts = [
        _beside(new, calls, every, _Role(OpKind.COMPUTE, 0, UNPRICED, own)),
        _beside(new, calls, every, _Role(OpKind.HOST, 1, new.talk.handed_ns)),
        _rows(new, calls, lane + rank[calls.step], group + sharers, len(parts.step)),
        _beside(new, calls, thread, _Role(OpKind.WAIT, 3)),
        _beside(new, calls, every, _Role(OpKind.COMPUTE, 4, UNPRICED, taken)),
        _handing(new, parts),
        _reducing(
            new, parts, lane + world + rank[parts.step], group + world // new.degree + holders
        ),
        _waiting(new, update, waits),
    ]
    added, (pack, host, call, wait, unpack, handing, reduce, ended) = in_turn(len(graph), sorts)
    made = Links.by_kind(
        [
            (DepKind.DATA, call, pack),
            (DepKind.LAUNCH, call, host),
            (DepKind.LAUNCH, pack[device], host[device]),
            (DepKind.LAUNCH, unpack[device], host[device]),
            (DepKind.EVENT, unpack[device], call[device]),
            (DepKind.WAIT, wait, call[thread]),
            (DepKind.LAUNCH, reduce, handing),
            (DepKind.GRADIENT, reduce, parts.ready),
            (DepKind.WAIT, ended, reduce[waits]),
            (DepKind.GRADIENT, update[waits], reduce[waits]),
        ]
    )
    return spliced(graph, np.zeros(len(graph), np.bool_), added, links.joined(made))


def _taken_in(calls: PairCalls, degree: int) -> Int64:
    """Bytes that are read and written to take in what came: copied, or added to the own."""
    others = calls.size_bytes // degree * (degree - 1)
    return np.where(calls.sums, 3 * others, 2 * others)


@dataclass(frozen=True)
class _Role:
    """What a thread or a stream does for each of the calls."""

    kind: OpKind
    part: int  # in the order in which its ops stand; and its name
    dur_ns: int = 0
    touches: Int64 | None = None  # bytes


def _beside(new: _New, calls: PairCalls, chosen: Int64, role: _Role) -> Sort:
    """Each stands before or behind an op: what a host does on its thread, the rest on its lane."""
    graph, anchor = new.graph, calls.anchor[chosen]
    like = new.launcher[anchor] if role.kind is OpKind.HOST else anchor
    phase = graph.ops.phase[anchor] if role.part > _OWN else Phase.COMMUNICATION
    columns = {
        **_plain(new, like, like - calls.before[chosen], role.part),
        "kind": role.kind,
        "dur_ns": role.dur_ns,
        "size_bytes": 0 if role.touches is None else role.touches[chosen],
        "phase": np.broadcast_to(np.asarray(phase, np.int64), len(chosen)),
    }
    return Sort(_turn(calls, chosen, role.part), columns)


_OWN = 2
"""Roles up to here are for the sake of communication; behind it a pass waits and goes on."""


def _rows(new: _New, calls: PairCalls, lane: Int64, group: Int64, above: int) -> Sort:
    graph = new.graph
    width = int(calls.place.max(initial=0)) + 1
    number = new.instances(calls.step, group * width + calls.place)
    columns = {
        **_plain(new, calls.anchor, calls.anchor - calls.before, 2),
        "kind": OpKind.COLLECTIVE,
        "dur_ns": UNPRICED,
        "lane": lane,
        "size_bytes": calls.size_bytes,
        "collective": Collective.ALL_TO_ALL,
        "dtype": DType.UINT8,
        "group": group,
        "instance": int(graph.ops.instance.max(initial=NONE)) + 1 + above + number,
        "phase": np.full(len(lane), Phase.COMMUNICATION, np.int64),
    }
    return Sort(_turn(calls, np.arange(len(lane)), 2), columns)


def _turn(calls: PairCalls, chosen: Int64, part: int) -> Int64:
    """Behind reductions of parts that stand at the same op."""
    many = len(_NAMES)
    width = int(calls.place.max(initial=0)) + 1
    turn: Int64 = (calls.step[chosen] * width + calls.place[chosen]) * many + part
    return turn


def _handing(new: _New, parts: PartCalls) -> Sort:
    like = new.launcher[parts.ready]
    columns = {
        **_plain(new, like, like, 5),
        "kind": OpKind.HOST,
        "dur_ns": new.talk.handed_ns,
        "phase": np.full(len(like), Phase.COMMUNICATION, np.int64),
    }
    return Sort(_first(parts, 0), columns)


def _reducing(new: _New, parts: PartCalls, lane: Int64, group: Int64) -> Sort:
    width = int(parts.place.max(initial=0)) + 1
    number = new.instances(parts.step, group * width + parts.place)
    columns = {
        **_plain(new, parts.ready, new.launcher[parts.ready], 6),
        "kind": OpKind.COLLECTIVE,
        "dur_ns": UNPRICED,
        "lane": lane,
        "size_bytes": parts.size_bytes,
        "collective": Collective.ALL_REDUCE,
        "dtype": DType.FLOAT32,
        "group": group,
        "instance": int(new.graph.ops.instance.max(initial=NONE)) + 1 + number,
        "phase": np.full(len(lane), Phase.COMMUNICATION, np.int64),
    }
    return Sort(_first(parts, 1), columns)


def _first(parts: PartCalls, part: int) -> Int64:
    """Before what else stands at the same op."""
    return 2 * np.arange(len(parts.step)) + part - 2 * len(parts.step)


def _updates(new: _New, parts: PartCalls) -> Int64:
    """By part: the first op of the update behind it on its thread, or NONE."""
    ops, thread = new.graph.ops, new.launcher[parts.ready]
    updates = np.flatnonzero(ops.phase == Phase.UPDATE)
    keys = ops.lane[updates].astype(np.int64) * len(new.graph) + updates
    order = np.argsort(keys, kind="stable")
    at = np.searchsorted(keys[order], ops.lane[thread].astype(np.int64) * len(new.graph) + thread)
    found = np.full(len(thread), NONE, np.int64)
    there = np.flatnonzero(at < len(keys))
    following = updates[order][at[there]]
    alike = ops.lane[following] == ops.lane[thread[there]]
    alike &= ops.step[following] == ops.step[thread[there]]
    found[there[alike]] = following[alike]
    return found


def _waiting(new: _New, update: Int64, waits: Int64) -> Sort:
    like = update[waits]
    columns = {
        **_plain(new, like, like - 1, 7),
        "kind": OpKind.WAIT,
        "phase": np.full(len(like), Phase.BACKWARD, np.int64),
    }
    return Sort(waits, columns)


def _plain(new: _New, like: Int64, behind: Int64, name: int) -> dict[str, object]:
    return {
        **PLAIN,
        "like": like,
        "behind": behind,
        "kind": OpKind.HOST,
        "dur_ns": 0,
        "lane": new.graph.ops.lane[like],
        "size_bytes": 0,
        "collective": Collective.NONE,
        "dtype": DType.NONE,
        "group": NONE,
        "instance": NONE,
        "name": len(new.graph.names) - len(_NAMES) + name,
        "layer": NONE,
    }
