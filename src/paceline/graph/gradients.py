"""Gradients in a graph: the ops that ready them, and the communication that reduces them."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from paceline.errors import GraphError
from paceline.graph.copying import ragged
from paceline.graph.graph import Bool, Graph, Int32, Int64
from paceline.graph.kinds import NONE, Axis, Collective, DepKind, OpKind, Phase
from paceline.graph.links import Links


@dataclass(frozen=True, eq=False)
class Gradients:
    """Ops that ready a gradient, ascending, and which of the job's parameters each readies."""

    op: Int64
    parameter: Int64


def gradients_of(graph: Graph) -> Gradients:
    number = {p.name: i for i, p in enumerate(graph.facts.parameters)}
    parameter = told_by(graph, graph.ops.tensor, number)[graph.ops.tensor]
    rows = np.flatnonzero(parameter != NONE)
    return Gradients(rows, parameter[rows])


def told_by(graph: Graph, texts: Int32, number: Mapping[str, int]) -> Int64:
    """The number of each of the graph's names, as far as these texts have them; NONE for others."""
    found = np.full(len(graph.names) + 1, NONE, np.int64)
    for text in np.flatnonzero(np.bincount(texts + 1)[1:]).tolist():
        found[text] = number.get(graph.names[text], NONE)
    return found


def reducing(graph: Graph, links: Links) -> Int64:
    """All-reduces of gradient buckets: gradients lead into them, and replicas take part."""
    ops = graph.ops
    fed = np.zeros(len(graph), np.bool_)
    fed[links.op[links.kind == DepKind.GRADIENT]] = True
    reduces = (ops.kind == OpKind.COLLECTIVE) & (ops.collective == Collective.ALL_REDUCE)
    return np.flatnonzero(reduces & fed & _among_replicas(graph))


def carrying(graph: Graph, links: Links) -> Int64:
    """Collectives that carry gradients of replicas as they are, or as an op before them packs."""
    packed = np.zeros(len(graph), np.bool_)
    packed[links.op[(links.kind == DepKind.DATA) & _packs(graph, links)[links.src]]] = True
    packed &= (graph.ops.kind == OpKind.COLLECTIVE) & _among_replicas(graph)
    return np.union1d(reducing(graph, links), np.flatnonzero(packed))


def parameters_in(graph: Graph, links: Links) -> dict[int, list[int]]:
    """By collective: the parameters whose gradients it carries, in order."""
    found: dict[int, list[int]] = {}
    for op, carried in zip(*(column.tolist() for column in carried_by(graph, links))):
        found.setdefault(op, []).append(carried)
    return found


def carried_by(graph: Graph, links: Links) -> tuple[Int64, Int64]:
    """Collectives and parameters whose gradients they carry, in order: one row a pair. What makes a
    gradient may stand before the op that is known to ready it: the next such op on its lane is
    meant."""
    known = gradients_of(graph)
    by_lane = np.lexsort((known.op, graph.ops.lane[known.op]))
    ready, parameter = known.op[by_lane], known.parameter[by_lane]
    width = len(graph) + 1
    keys = graph.ops.lane[ready].astype(np.int64) * width + ready
    call, source = _fed_from(graph, links)
    at = np.searchsorted(keys, graph.ops.lane[source].astype(np.int64) * width + source)
    there = at < len(keys)
    there[there] = graph.ops.lane[ready[at[there]]] == graph.ops.lane[source[there]]
    call, carried = call[there], parameter[at[there]]
    pairs = call * (len(graph.facts.parameters) + 1) + carried
    _, first = np.unique(pairs, return_index=True)
    first.sort()
    return call[first], carried[first]


def _fed_from(graph: Graph, links: Links) -> tuple[Int64, Int64]:
    """Ops that gradients lead into, at once or through an op that packs them, and the ops that
    these gradients come from: one row a pair."""
    fed = links.where(links.kind == DepKind.GRADIENT)
    packs = _packs(graph, links)
    through = links.where((links.kind == DepKind.DATA) & packs[links.src])
    by_pack = np.argsort(fed.op, kind="stable")
    first = np.searchsorted(fed.op[by_pack], through.src, "left")
    count = np.searchsorted(fed.op[by_pack], through.src, "right") - first
    packed = by_pack[ragged(first, count)]
    return (
        np.concatenate([fed.op, np.repeat(through.op, count)]),
        np.concatenate([fed.src, fed.src[packed]]),
    )


def _packs(graph: Graph, links: Links) -> Bool:
    """Ops that bring gradients into the form in which they travel."""
    found = np.zeros(len(graph), np.bool_)
    found[links.op[links.kind == DepKind.GRADIENT]] = True
    found &= (graph.ops.kind == OpKind.COMPUTE) & (graph.ops.phase == Phase.COMMUNICATION)
    return found


def scattering(graph: Graph, links: Links) -> Int64:
    """What reduces gradients among ranks that each keep a part of the weights (FSDP2): gradients
    lead into it. Gloo's reduce-scatter may be recorded as an all-reduce."""
    ops = graph.ops
    fed = np.zeros(len(graph), np.bool_)
    fed[links.op[links.kind == DepKind.GRADIENT]] = True
    kinds = (Collective.REDUCE_SCATTER, Collective.ALL_REDUCE)
    talks = (ops.kind == OpKind.COLLECTIVE) & np.isin(ops.collective, kinds)
    return np.flatnonzero(talks & fed & among_shards(graph))


def reduced(graph: Graph, links: Links) -> Int64:
    """What brings ranks their reduced gradients: all-reduces, or pulls from parameter servers."""
    pulls = (graph.ops.collective == Collective.PULL) & _among_replicas(graph)
    return np.union1d(reducing(graph, links), np.flatnonzero(pulls))


def ready_orders(graph: Graph, found: Gradients) -> Mapping[int, tuple[int, ...]]:
    """By rank, its parameters in the order in which their gradients are ready in its first step;
    an error where the graph does not say it of every parameter of the job."""
    ops, orders = graph.ops, dict[int, tuple[int, ...]]()
    for rank in np.unique(ops.rank[found.op]).tolist():
        mine = ops.rank[found.op] == rank
        mine &= ops.step[found.op] == ops.step[found.op[mine]].min()
        orders[rank] = tuple(dict.fromkeys(found.parameter[mine].tolist()))
    told = {parameter for order in orders.values() for parameter in order}
    if not told or len(told) < len(graph.facts.parameters):
        raise not_told()
    return orders


def no_exchange(graph: Graph, why: str) -> GraphError:
    """Where no exchange of gradients is seen: `why` in a job of several workers."""
    if graph.world_size > 1 or (graph.ops.kind == OpKind.COLLECTIVE).any():
        return GraphError(why)
    return GraphError(
        "this job has one worker, which exchanges no gradients. Record a job under DDP with "
        "`paceline record`, on two workers or more"
    )


def not_told() -> GraphError:
    return GraphError(
        "the recording does not say when each gradient is ready, so its exchange cannot be "
        "changed. Record a job under DDP with `paceline record`."
    )


def _among_replicas(graph: Graph) -> Bool:
    """Communication of replicas that hold whole weights. Those that gather them hold parts, and
    their gradients travel as the library asks (FSDP2), not in buckets."""
    gathering = _gathering(graph)
    return _in_groups(graph, [row for row in _replicas(graph) if row not in gathering])


def among_shards(graph: Graph) -> Bool:
    """Communication of replicas that hold parts of the weights and gather them (FSDP2)."""
    gathering = _gathering(graph)
    return _in_groups(graph, [row for row in _replicas(graph) if row in gathering])


def _in_groups(graph: Graph, rows: list[int]) -> Bool:
    chosen = np.zeros(len(graph.groups) + 1, np.bool_)  # the last is that of ops without a group
    chosen[rows] = True
    found: Bool = chosen[graph.ops.group]
    return found


def _replicas(graph: Graph) -> list[int]:
    return [row for row, group in enumerate(graph.groups) if group.axis is Axis.DATA]


def _gathering(graph: Graph) -> frozenset[int]:
    """Groups of which a rank gathers half the gradients' bytes in a step, or more."""
    gathers = np.flatnonzero(graph.ops.collective == Collective.ALL_GATHER)
    if not len(gathers):
        return frozenset()
    gathers = np.setdiff1d(gathers, _of_payloads(graph, Links.of(graph)), assume_unique=True)
    group = graph.ops.group[gathers]
    return frozenset(
        row for row in np.unique(group).tolist() if _gathers_weights(graph, gathers[group == row])
    )


def _of_payloads(graph: Graph, links: Links) -> Int64:
    """Ops that read what work for the sake of communication packs: no weights."""
    packs = (graph.ops.kind == OpKind.COMPUTE) & (graph.ops.phase == Phase.COMMUNICATION)
    found: Int64 = links.op[(links.kind == DepKind.DATA) & packs[links.src]]
    return found


def _gathers_weights(graph: Graph, gathers: Int64) -> bool:
    """By a group's all-gathers: those of the first one's rank and step."""
    ops, first = graph.ops, gathers[0]
    mine = (ops.rank[gathers] == ops.rank[first]) & (ops.step[gathers] == ops.step[first])
    gathered = int(ops.size_bytes[gathers[mine]].sum())
    return 2 * gathered >= sum(graph.facts.gradient_bytes().values())
