"""`recomputed`: layers whose forward pass runs again, right before their backward pass.

What they kept is given up when the first forward pass leaves them, all but their results; it comes
back with the second one and goes as it went before. Memory events of the first one are copied with
its ops. The thread of the backward pass runs them, which on a device is not the training loop's.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from paceline.errors import GraphError
from paceline.graph.copying import joined
from paceline.graph.facts import LayerMemory
from paceline.graph.graph import Bool, Graph, Int64, MemoryEvents
from paceline.graph.kinds import NONE, DepKind, LaneKind, MemoryCategory, Phase
from paceline.graph.links import Links
from paceline.graph.membership import TALKS, WORKS, among
from paceline.graph.rank_steps import RankSteps
from paceline.graph.splice import Added, spliced

_HELD = (MemoryCategory.ACTIVATIONS, MemoryCategory.TEMPORARY)


@dataclass(frozen=True, eq=False)
class Segment:
    """One run of layers on one rank in one step."""

    forward: Int64  # ops that run again
    lane: Int64  # where each of them does
    begins: Mapping[int, int]  # lane -> its first backward op
    ends: int  # the last backward op of a thread, which gives back memory
    threads: Int64  # which of `forward` are on threads, which take it
    layers: Sequence[LayerMemory]


def recomputed(graph: Graph, segments: Sequence[Sequence[str]]) -> Graph:
    """The graph in which each of these runs of layers is run again."""
    passes = list(_passes(graph))
    found = [one for names in segments for one in _segments(graph, names, passes)]
    if not found:
        raise GraphError(
            "the recording does not tell which ops belong to these layers, so they cannot be run "
            "again. Record the job with `paceline record`, and steps that are alike."
        )
    links = Links.of(graph)
    _refuse_communication(graph, links, found)
    like = np.concatenate([one.forward for one in found])
    behind = np.concatenate([_behind(graph, one) for one in found])
    count = len(like)
    added = Added(
        like,
        behind,
        {
            "phase": np.full(count, Phase.BACKWARD),
            "tensor": np.full(count, NONE),
            "lane": np.concatenate([one.lane for one in found]),
        },
    )
    none = np.zeros(len(graph), np.bool_)
    all_links = links.joined(_copied_links(graph, links, found))
    made = spliced(replace(graph, spread=None), none, added, all_links)
    place = _place(len(graph), like, behind)
    return replace(made, memory=_memory(graph, found, place))


@dataclass(frozen=True, eq=False)
class _Passes:
    """Work of both passes on one rank in one step."""

    rank: int
    forward: Int64
    backward: Int64


def _passes(graph: Graph) -> Iterator[_Passes]:
    ops, steps = graph.ops, RankSteps.of(graph)
    works = WORKS[ops.kind]
    forward, backward = (
        np.flatnonzero(works & (ops.phase == phase)) for phase in (Phase.FORWARD, Phase.BACKWARD)
    )
    for row, rank in enumerate(steps.rank.tolist()):
        ahead, back = (rows[steps.of_op[rows] == row] for rows in (forward, backward))
        yield _Passes(rank, ahead, back)


def _segments(graph: Graph, names: Sequence[str], passes: Sequence[_Passes]) -> Iterator[Segment]:
    """The layers on each rank and in each step that runs both of their passes."""
    inside, held = _inside(graph, names), _layers_by_rank(graph, names)
    for one in passes:
        back = one.backward[inside[one.backward]]
        forward = _whole(graph, one.forward, inside)
        if len(forward) and len(back):
            lane = _lanes(graph, forward, back)
            begins = _begins(graph, lane, back)
            ends = int(back[_on_threads(graph, graph.ops.lane[back].astype(np.int64))[-1]])
            yield Segment(forward, lane, begins, ends, _on_threads(graph, lane), held[one.rank])


def _inside(graph: Graph, names: Sequence[str]) -> Bool:
    """Which ops belong to the layers."""
    begins = tuple(f"{name}." for name in names)
    there = np.flatnonzero(np.bincount(graph.ops.layer + 1, minlength=1)[1:])
    chosen = [layer for layer in there.tolist() if f"{graph.names[layer]}.".startswith(begins)]
    found: Bool = among(len(graph.names) + 1, np.array(chosen, np.int64))[graph.ops.layer]
    return found


def _layers_by_rank(graph: Graph, names: Sequence[str]) -> dict[int, tuple[LayerMemory, ...]]:
    known = {held.rank: held.layers for held in graph.facts.memory}
    return {
        rank: tuple(layer for layer in known.get(rank, ()) if layer.name in names)
        for rank in graph.ranks
    }


def _whole(graph: Graph, ahead: Int64, inside: Bool) -> Int64:
    """Forward ops of the layers, and what their threads do between them."""
    parts = [np.zeros(0, np.int64)]
    for lane in np.unique(graph.ops.lane[ahead]).tolist():
        mine = ahead[graph.ops.lane[ahead] == lane]
        chosen = inside[mine]
        if chosen.any():
            first, last = int(np.argmax(chosen)), len(mine) - int(np.argmax(chosen[::-1]))
            between = graph.ops.layer[mine] == NONE
            span = np.arange(len(mine))
            parts.append(mine[(chosen | between) & (span >= first) & (span < last)])
    return np.sort(np.concatenate(parts))


def _on_threads(graph: Graph, lane: Int64) -> Int64:
    """Rows on threads; the last one where there are none."""
    found = np.flatnonzero(graph.lanes.kind[lane] == LaneKind.THREAD)
    return found if len(found) else np.array([len(lane) - 1])


def _lanes(graph: Graph, forward: Int64, back: Int64) -> Int64:
    """Where the second pass runs: of threads, where the backward pass does."""
    lanes, threads = graph.ops.lane.astype(np.int64), graph.lanes.kind == LaneKind.THREAD
    of_back = lanes[back][threads[lanes[back]]]
    if not len(of_back):
        return lanes[forward]
    found: Int64 = np.where(threads[lanes[forward]], of_back[0], lanes[forward])
    return found


def _begins(graph: Graph, lane: Int64, back: Int64) -> dict[int, int]:
    """Before which op each lane's copies stand: the first backward op there, or at all."""
    lanes, first = graph.ops.lane, int(back[0])
    return {
        each: int(next(iter(back[lanes[back] == each].tolist()), first))
        for each in np.unique(lane).tolist()
    }


def _behind(graph: Graph, one: Segment) -> Int64:
    """The op behind which each copy stands."""
    at: Int64 = np.array([one.begins[lane] for lane in one.lane.tolist()])
    return at - 1


def _refuse_communication(graph: Graph, links: Links, found: Sequence[Segment]) -> None:
    talks = TALKS[graph.ops.kind]
    again = among(len(graph), np.concatenate([one.forward for one in found]))
    launches = (links.kind == DepKind.LAUNCH) & again[links.src]
    reached = launches & (talks[links.op] | (graph.ops.phase[links.op] == Phase.COMMUNICATION))
    if reached.any():
        op = graph[int(links.op[np.argmax(reached)])]
        raise GraphError(
            f"the forward pass of these layers communicates ({op}), and running it again would "
            "communicate again, which is not predicted. Choose layers within one worker."
        )


def _copied_links(graph: Graph, links: Links, found: Sequence[Segment]) -> Links:
    """Links among the ops of a segment, among their copies."""
    again = among(len(graph), np.concatenate([one.forward for one in found]))
    inner = links.where(again[links.op] & again[links.src])
    parts, first = [], len(graph)
    for one in found:
        place = np.full(len(graph), NONE, np.int64)
        place[one.forward] = first + np.arange(len(one.forward))
        both = (place[inner.op] != NONE) & (place[inner.src] != NONE)
        parts.append(inner.where(both).moved(place))
        # the second pass begins when the backward pass has come to the layers, and they wait for it
        parts.append(_waits_of_first(graph, one, first))
        first += len(one.forward)
    return Links.together(parts)


def _waits_of_first(graph: Graph, one: Segment, first: int) -> Links:
    """The first copy waits for what the first backward op waits for; that one for the last copy.
    On a device's streams their order says so."""
    begin = min(one.begins[lane] for lane in np.unique(one.lane[one.threads]).tolist())
    src = graph.deps.of(begin).astype(np.int64)
    src = src[src < begin]
    waits = Links.all_of(np.full(len(src), first + one.threads[0]), src, DepKind.DATA)
    last = np.array([first + one.threads[-1]])
    return waits.joined(Links.all_of(np.array([begin]), last, DepKind.DATA))


def _place(count: int, like: Int64, behind: Int64) -> Int64:
    """Where old and new ops are in the new graph, as `spliced` puts them."""
    keys = np.concatenate([np.arange(count), behind])
    place = np.empty(len(keys), np.int64)
    place[np.argsort(keys, kind="stable")] = np.arange(len(keys))
    return place


def _memory(graph: Graph, found: Sequence[Segment], place: Int64) -> MemoryEvents:
    memory = graph.memory
    if not len(memory.op):
        return memory
    parts = [replace(memory, op=place[memory.op].astype(np.int32))]
    first = len(graph)
    for one in found:
        parts += _events(memory, one, place, first)
        first += len(one.forward)
    whole: MemoryEvents = joined(parts)
    order = np.argsort(whole.op, kind="stable")
    return MemoryEvents(*(column[order] for column in vars(whole).values()))


def _events(memory: MemoryEvents, one: Segment, place: Int64, first: int) -> Iterator[MemoryEvents]:
    """What is given up behind the first pass, and comes and goes with the second."""
    rows = np.flatnonzero(np.isin(memory.op, one.forward) & np.isin(memory.category, _HELD))
    if not len(rows):
        return
    at = np.searchsorted(one.forward, memory.op[rows])
    copies = MemoryEvents(
        place[first + at].astype(np.int32),
        memory.device[rows],
        memory.delta_bytes[rows],
        memory.category[rows],
        memory.at_end[rows],
    )
    kept, temporary = (
        int(memory.delta_bytes[rows][memory.category[rows] == kind].sum()) for kind in _HELD
    )
    output = min(kept, one.layers[-1].output_bytes) if one.layers else 0
    own = min(output, one.layers[-1].own_output_bytes) if one.layers else 0
    given = one.layers[0].input_bytes if one.layers else 0
    begin, end = (int(place[first + one.threads[at]]) for at in (0, -1))
    activations, other = _HELD
    device = int(memory.device[rows[0]])
    # behind the first pass only results stay, and inputs that else had gone by then
    left = int(place[one.forward[one.threads[-1]]])
    yield _event(device, left, output - kept + given, activations)
    # the first result has been read by now; inputs that the second pass gives up are still held
    yield _event(device, begin, -own, activations, at_end=False)
    yield _event(device, begin, given, other, at_end=False)
    yield copies
    yield _event(device, end, own - output, activations)
    yield _event(device, end, -temporary - given, other)
    yield _event(device, int(place[one.ends]), -given, activations)


def _event(
    device: int, op: int, delta: int, category: MemoryCategory, *, at_end: bool = True
) -> MemoryEvents:
    return MemoryEvents(
        np.array([op] if delta else [], np.int32),
        np.array([device] if delta else [], np.int32),
        np.array([delta] if delta else [], np.int64),
        np.array([category] if delta else [], np.uint8),
        np.array([at_end] if delta else [], np.bool_),
    )
