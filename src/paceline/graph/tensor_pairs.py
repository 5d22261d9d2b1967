"""`with_tensor_pairs`: data-parallel workers put together to groups that share pairs of layers.

Of a pair of linear layers a rank holds some of the outputs of the first and the same inputs of the
second (Megatron-LM). So the group adds up what the second gives, in the forward pass, and the
gradient of what the first was given, in the backward pass. `degree` ranks side by side make a
group; gradients are reduced among the ranks that hold the same part.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from paceline.errors import GraphError
from paceline.graph.facts import Parameter
from paceline.graph.gradients import reducing
from paceline.graph.graph import Graph, Group, Int64
from paceline.graph.kinds import (
    NONE,
    UNPRICED,
    Axis,
    Collective,
    DepKind,
    DType,
    LaneKind,
    OpKind,
    Phase,
)
from paceline.graph.links import Links
from paceline.graph.remodel import Factor, NewLayer, passes_on, remodelled
from paceline.graph.replicas import Layout
from paceline.graph.scaled import unpriced
from paceline.graph.splice import Added, spliced


@dataclass(frozen=True)
class LinearPair:
    """Weights of two layers of which the second takes what the first gives."""

    first: Parameter
    second: Parameter


@dataclass(frozen=True)
class Sharing:
    """How many ranks share each pair, and how many rows a rank's activations have."""

    degree: int
    rows: int


def pairs_of(weights: Sequence[Parameter], degree: int) -> list[LinearPair]:
    """Neighbours that fit together and divide, each weight in one pair."""
    found, at = list[LinearPair](), 0
    while at + 1 < len(weights):
        first, second = weights[at], weights[at + 1]
        inner = first.shape[0]
        fits = inner == second.shape[1] and inner % degree == 0
        if fits:
            found.append(LinearPair(first, second))
        at += 2 if fits else 1
    return found


def with_tensor_pairs(graph: Graph, pairs: Sequence[LinearPair], sharing: Sharing) -> Graph:
    """The job with its pairs shared, in the recorded buckets: the caller cuts them anew."""
    _require(graph, sharing.degree)
    regrouped = _regrouped(graph, sharing.degree)
    shared = remodelled(regrouped, [layer for pair in pairs for layer in _parts(pair, sharing)])
    for pair in pairs:
        shared = _adding_up(shared, pair.second, Phase.FORWARD, sharing)
        if passes_on(graph, pair.first):
            shared = _adding_up(shared, pair.first, Phase.BACKWARD, sharing)
    return _with_biases(shared, pairs, sharing.degree)


def _with_biases(graph: Graph, pairs: Sequence[LinearPair], degree: int) -> Graph:
    """A rank has the biases of the outputs that it holds of a first layer."""
    cut = {pair.first.layer for pair in pairs}
    parameters = tuple(
        replace(p, size_bytes=p.size_bytes // degree, shape=(p.shape[0] // degree,))
        if p.layer in cut and len(p.shape) == 1
        else p
        for p in graph.facts.parameters
    )
    return replace(graph, facts=replace(graph.facts, parameters=parameters))


def _require(graph: Graph, degree: int) -> None:
    layout = Layout.of(graph)
    if layout.stride != 1 or layout.replicas != graph.world_size:
        raise GraphError("the workers share more than gradients already; record plain replicas")
    if layout.replicas % degree:
        raise GraphError(
            f"{layout.replicas} workers cannot be put together by {degree}; add workers first, as "
            f"in workers(count={degree * -(-layout.replicas // degree)})"
        )


def _parts(pair: LinearPair, sharing: Sharing) -> tuple[NewLayer, NewLayer]:
    """A rank's part of both weights."""
    (inner, columns), (rows, _) = pair.first.shape, pair.second.shape
    mine, work = inner // sharing.degree, 1 / sharing.degree
    return (
        NewLayer(pair.first, (Factor((mine, columns), work),)),
        NewLayer(pair.second, (Factor((rows, mine), work),)),
    )


def _regrouped(graph: Graph, degree: int) -> Graph:
    """Gradients are reduced among ranks of one part. New groups stand behind the old ones: first
    those of gradients, by part, then those that share pairs, by their first rank."""
    world, count, ops = graph.world_size, len(graph.groups), graph.ops
    parts = [tuple(range(part, world, degree)) for part in range(degree)]
    sharing = [tuple(range(first, first + degree)) for first in range(0, world, degree)]
    groups = (
        *graph.groups,
        *(Group(f"data {ranks[0]}", ranks, Axis.DATA) for ranks in parts),
        *(Group(f"tensor {ranks[0]}", ranks, Axis.TENSOR) for ranks in sharing),
    )
    old = reducing(graph, Links.of(graph))
    group, instance = ops.group.copy(), ops.instance.copy()
    part = ops.rank[old] % degree
    group[old] = count + part
    top = int(ops.instance.max(initial=NONE)) + 1
    instance[old] = top + ops.instance[old] * degree + part
    used = replace(ops, group=group, instance=instance)
    kept = _without_unused(replace(graph, ops=used, groups=groups), count)
    return unpriced(kept, old)


def _without_unused(graph: Graph, count: int) -> Graph:
    """Old groups that reduce no more are no axis of replicas."""
    used = set(np.unique(graph.ops.group).tolist())
    groups = tuple(
        replace(group, axis=Axis.NONE)
        if row < count and row not in used and group.axis is Axis.DATA
        else group
        for row, group in enumerate(graph.groups)
    )
    return replace(graph, groups=groups)


def _adding_up(graph: Graph, weight: Parameter, phase: Phase, sharing: Sharing) -> Graph:
    """An all-reduce behind a layer's last op of the phase, and who goes on waits for it."""
    last = _last(graph, weight.layer, phase)
    ops, count, links = graph.ops, len(graph), Links.of(graph)
    features = weight.shape[0] if phase is Phase.FORWARD else weight.shape[1]
    tensor = {g.ranks[0]: r for r, g in enumerate(graph.groups) if g.axis is Axis.TENSOR}
    first = ops.rank[last] // sharing.degree * sharing.degree
    talks, waits = count + np.arange(len(last)), count + len(last) + np.arange(len(last))
    keys = np.stack([first, ops.step[last]])
    joined = np.unique(keys, axis=1, return_inverse=True)[1].ravel()
    instance = int(ops.instance.max(initial=NONE)) + 1 + joined
    made = len(last)
    columns = {
        "kind": np.repeat([OpKind.COLLECTIVE, OpKind.WAIT], made),
        "phase": np.repeat([Phase.COMMUNICATION, phase], made),
        "dur_ns": np.repeat([UNPRICED, 0], made),
        "lane": np.concatenate([_talking_lanes(graph, last), ops.lane[last]]),
        "collective": np.repeat([Collective.ALL_REDUCE, Collective.NONE], made),
        "dtype": np.repeat([DType.FLOAT32, DType.NONE], made),
        "size_bytes": np.repeat([4 * sharing.rows * features, 0], made),
        "group": np.concatenate([[tensor[f] for f in first.tolist()], np.full(made, NONE)]),
        "instance": np.concatenate([instance, np.full(made, NONE)]),
        "name": np.repeat([len(graph.names), len(graph.names) + 1], made),
        "tensor": NONE,
        "flops": 0,
    }
    stream = graph.lanes.kind[ops.lane[last]] == LaneKind.STREAM
    waiting = DepKind.EVENT if stream.any() else DepKind.WAIT
    edges = links.joined(Links.all_of(talks, last, DepKind.DATA))
    edges = edges.joined(Links.all_of(waits, talks, waiting))
    like = np.concatenate([last, last])
    named = replace(graph, names=(*graph.names, "all-reduce of activations", "wait for it"))
    return spliced(named, np.zeros(count, np.bool_), Added(like, like, columns), edges)


def _last(graph: Graph, layer: str, phase: Phase) -> Int64:
    """A layer's last op of a phase on each rank in each step."""
    ops = graph.ops
    mine = (ops.layer == graph.names.index(layer)) & (ops.phase == phase)
    rows = np.flatnonzero(mine & (ops.kind == OpKind.COMPUTE))
    place = np.stack([ops.rank[rows], ops.step[rows]])
    _, at = np.unique(place[:, ::-1], axis=1, return_index=True)
    found: Int64 = np.sort(rows[::-1][at])
    return found


def _talking_lanes(graph: Graph, rows: Int64) -> Int64:
    """By op, the lane on which its rank reduces gradients."""
    old = reducing(graph, Links.of(graph))
    lane = dict(zip(graph.ops.rank[old][::-1].tolist(), graph.ops.lane[old][::-1].tolist()))
    return np.array([lane[rank] for rank in graph.ops.rank[rows].tolist()], np.int64)
