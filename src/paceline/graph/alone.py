"""`alone`: what is left of a sharded replica's work when no other replica holds the rest.

FSDP2 on a mesh of one makes no call: what it did only to make one (the copy into the buffer that is
gathered, the hand-over, the copies around a reduce-scatter) takes no time. It still copies each
weight out of its shard, and gradients into the reduced buffer: that work stays.
"""

import numpy as np

from paceline.graph.gradients import among_shards
from paceline.graph.graph import Bool, Graph, Int32, Int64
from paceline.graph.kinds import NONE, DepKind, LaneKind, Phase
from paceline.graph.links import Links
from paceline.graph.scaled import scaled, works


def alone(graph: Graph) -> Graph:
    """The graph of the only replica; itself where replicas hold whole weights."""
    calls = among_shards(graph)
    if not calls.any():
        return graph
    return scaled(graph, works(graph) & for_calls(graph, calls), 0.0)


def for_calls(graph: Graph, calls: Bool) -> Bool:
    """Stretches of communication on a thread that hand one of the calls over, or wait for it. A
    hand-over may lie at the begin of its stretch: then what leads to it is no part of that."""
    ops = graph.ops
    order = np.argsort(ops.lane, kind="stable")
    talks = (ops.phase == Phase.COMMUNICATION) & (graph.lanes.kind[ops.lane] == LaneKind.THREAD)
    stretch = _stretches(ops.lane[order], talks[order])[np.argsort(order)]
    links = Links.of(graph)
    handed = links.src[(links.kind == DepKind.LAUNCH) & calls[links.op]]
    awaited = links.op[(links.kind == DepKind.WAIT) & calls[links.src]]
    behind = _behind(order, ops.lane)[handed[~talks[handed]]]
    touched = np.concatenate([handed, awaited, behind[behind != NONE]])
    found: Bool = talks & np.isin(stretch, stretch[touched[talks[touched]]])
    return found


def _stretches(lane: Int32, talks: Bool) -> Int64:
    """Numbers of consecutive ops of one lane that all communicate, or all do not."""
    new = np.ones(len(lane), np.bool_)
    new[1:] = (lane[1:] != lane[:-1]) | (talks[1:] != talks[:-1])
    return np.cumsum(new)


def _behind(order: Int64, lane: Int32) -> Int64:
    """The op behind each on its lane; NONE for the last."""
    found = np.full(len(order), NONE, np.int64)
    same = lane[order[1:]] == lane[order[:-1]]
    found[order[:-1][same]] = order[1:][same]
    return found
