"""What goes along with collectives that are taken out: a host's calls, a library's delays."""

import numpy as np

from paceline.graph.graph import Bool, Graph, Int64
from paceline.graph.kinds import NONE, DepKind, LaneKind, OpKind, Phase
from paceline.graph.links import Links
from paceline.graph.membership import among


def with_delays(graph: Graph, links: Links, calls: Int64) -> Bool:
    """These collectives of gradients, all of one step, and what delays them on their library's
    thread."""
    ops, lanes = graph.ops, graph.lanes
    theirs = among(len(lanes), ops.lane[calls]) & (lanes.kind == LaneKind.COMM_THREAD)
    fed = among(len(graph), links.op[links.kind == DepKind.GRADIENT])
    found: Bool = fed & (ops.kind == OpKind.HOST) & theirs[ops.lane]
    found &= ops.step == ops.step[calls[0]]
    found[calls] = True
    return found


def launches_of(graph: Graph, links: Links, goes: Bool) -> Int64:
    """The host's calls that hand over these ops and nothing else."""
    ops, count = graph.ops, len(graph)
    launching = links.kind == DepKind.LAUNCH
    rows = np.unique(links.src[launching & goes[links.op]])
    across = ops.lane[links.src] != ops.lane[links.op]
    others = among(count, links.src[across & ~goes[links.op]])
    calls = (ops.kind[rows] == OpKind.HOST) & (ops.phase[rows] == Phase.COMMUNICATION)
    found: Int64 = rows[calls & (ops.tensor[rows] == NONE) & ~others[rows]]
    return found
