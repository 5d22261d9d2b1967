"""`kept_gathered`: FSDP2's weights stay whole from forward to backward: none are gathered again."""

import numpy as np

from paceline.errors import GraphError
from paceline.graph.alone import for_calls
from paceline.graph.gradients import among_shards
from paceline.graph.graph import Bool, Graph
from paceline.graph.hand_over import HandOver
from paceline.graph.kinds import NONE, Collective, DepKind, OpKind, Phase
from paceline.graph.links import Links
from paceline.graph.scaled import scaled, works
from paceline.graph.splice import Added, spliced


def kept_gathered(graph: Graph) -> Graph:
    """Without the gathers behind which a backward pass comes, and what was done only for them."""
    links = Links.of(graph)
    calls = _again(graph, links)
    if not calls.any():
        raise GraphError(
            "this job gathers no weights a second time: it is not cut up by FSDP2, or its weights "
            "stay gathered already"
        )
    only = works(graph) & for_calls(graph, calls) & ~_serves_others(links, calls)
    quiet = scaled(graph, only, 0.0)
    gone = calls | _waits_for(links, calls)
    gone[HandOver(graph, links).launches(calls)] = True
    none = np.zeros(0, np.int64)
    return spliced(quiet, gone, Added(none, none, {}), links)


def _again(graph: Graph, links: Links) -> Bool:
    """Gathers of weights whose hand-over has backward work next on its thread; of all ranks."""
    ops = graph.ops
    gathers = among_shards(graph) & (ops.collective == Collective.ALL_GATHER)
    launch = (links.kind == DepKind.LAUNCH) & gathers[links.op]
    found = np.zeros(len(graph), np.bool_)
    found[links.op[launch]] = _next_phase(graph)[links.src[launch]] == Phase.BACKWARD
    told = ops.instance[found]
    joined: Bool = gathers & np.isin(ops.instance, told[told != NONE])
    return found | joined


def _next_phase(graph: Graph) -> "np.ndarray[tuple[int], np.dtype[np.int64]]":
    """By op, the phase of the forward or backward work that comes next on its lane."""
    ops = graph.ops
    order = np.argsort(ops.lane, kind="stable")
    passes = np.isin(ops.phase, (Phase.FORWARD, Phase.BACKWARD)) & (ops.kind != OpKind.WAIT)
    rows = np.where(passes[order], np.arange(len(order)), len(order))
    following = np.minimum.accumulate(rows[::-1])[::-1]
    there = following < len(order)
    at = order[following[there]]
    same = ops.lane[at] == ops.lane[order[there]]
    found = np.full(len(order), NONE, np.int64)
    found[order[there]] = np.where(same, ops.phase[at], np.int32(NONE))
    return found


def _serves_others(links: Links, calls: Bool) -> Bool:
    """Ops that hand over another call, or wait for one."""
    found = np.zeros(len(calls), np.bool_)
    found[links.src[(links.kind == DepKind.LAUNCH) & ~calls[links.op]]] = True
    found[links.op[(links.kind == DepKind.WAIT) & ~calls[links.src]]] = True
    return found


def _waits_for(links: Links, calls: Bool) -> Bool:
    """Ops that wait for these calls and for nothing else."""
    waits = links.kind == DepKind.WAIT
    found, others = np.zeros(len(calls), np.bool_), np.zeros(len(calls), np.bool_)
    found[links.op[waits & calls[links.src]]] = True
    others[links.op[waits & ~calls[links.src]]] = True
    return found & ~others
