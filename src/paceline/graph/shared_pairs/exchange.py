"""`with_pair_exchange`: the new collectives of a job whose workers share pairs.

A thread packs a worker's rows, hands them over, waits for the others' and takes them in; on a
device a kernel waits in its place. Reductions of parts go beside the backward pass, and the update
waits for them.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from paceline.graph.buffers import with_buffers
from paceline.graph.facts import Facts, Parameter
from paceline.graph.graph import Graph, Group, MemoryEvents
from paceline.graph.kinds import NONE, UNPRICED, Axis, DepKind, Discipline, LaneKind, OpKind
from paceline.graph.links import Links
from paceline.graph.own_lanes import more_lanes
from paceline.graph.rank_steps import RankSteps
from paceline.graph.rebucket.source import launcher_of
from paceline.graph.shared_pairs.calls import PairCalls, PartCalls, pair_calls, part_calls
from paceline.graph.shared_pairs.new_ops import NAMES, New, Talk, Turn
from paceline.graph.shared_pairs.pairs import SharedPair
from paceline.graph.shared_pairs.part_ops import handing_over, reducing, updates_behind, waiting
from paceline.graph.shared_pairs.row_ops import Role, beside, row_calls, taken_in
from paceline.graph.splice import in_turn, spliced


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
        names=(*graph.names, *NAMES),
        lanes=more_lanes(lanes, talk.lanes, "parts", Discipline.RECORDED),
        groups=(*graph.groups, *_groups(world, degree)),
        facts=_told(graph, degree),
        memory=_with_rows(graph, calls, degree),
    )
    links = Links.of(made)
    new = New(made, talk, degree, RankSteps.of(made), launcher_of(made, links))
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
    new: New, links: Links, calls: PairCalls, parts: PartCalls, lane: int, group: int
) -> Graph:
    graph, world = new.graph, new.graph.world_size
    rank = new.steps.rank
    on_device = graph.lanes.kind[graph.ops.lane[calls.anchor]] == LaneKind.STREAM
    thread, device = np.flatnonzero(~on_device), np.flatnonzero(on_device)
    every, size = np.arange(len(calls.step)), calls.size_bytes
    own, taken = 2 * size // new.degree, taken_in(calls, new.degree)
    update = updates_behind(new, parts)
    waits = np.flatnonzero(update != NONE)
    sharers = rank[calls.step] // new.degree
    holders = rank[parts.step] % new.degree
    sorts = [
        beside(new, calls, every, Role(OpKind.COMPUTE, Turn.PACK, UNPRICED, own)),
        beside(new, calls, every, Role(OpKind.HOST, Turn.HAND, new.talk.handed_ns)),
        row_calls(new, calls, lane + rank[calls.step], group + sharers, len(parts.step)),
        beside(new, calls, thread, Role(OpKind.WAIT, Turn.WAIT)),
        beside(new, calls, every, Role(OpKind.COMPUTE, Turn.TAKE, UNPRICED, taken)),
        handing_over(new, parts),
        reducing(
            new, parts, lane + world + rank[parts.step], group + world // new.degree + holders
        ),
        waiting(new, update, waits),
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
