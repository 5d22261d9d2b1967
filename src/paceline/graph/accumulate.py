"""`accumulated`: a step holds several forward and backward passes, and one exchange and update.

The passes before the last are the recorded step without its exchange of gradients, without what
copies them back, and without the update.
"""

from dataclasses import replace

import numpy as np

from paceline.graph.copy_back import copy_back
from paceline.graph.copying import Copied, copied
from paceline.graph.gradients import no_exchange, reducing
from paceline.graph.graph import Bool, Graph, Int64
from paceline.graph.kinds import NONE, DepKind, LaneKind, OpKind, Phase
from paceline.graph.links import Links
from paceline.graph.membership import among


def accumulated(graph: Graph, passes: int) -> Graph:
    """The graph with so many passes in each step, and as many times the samples."""
    links = Links.of(graph)
    calls = reducing(graph, links)
    if not len(calls):
        raise no_exchange(
            graph,
            "the recording does not say which collectives reduce gradients as they are, so they "
            "cannot be reduced less often. Record a job under DDP with `paceline record`, and "
            "accumulate before other changes of the exchange.",
        )
    once = _once(graph, links, calls)
    steps = np.unique(graph.ops.step)
    rows = []
    for step in steps.tolist():
        mine = graph.ops.step == step
        rows += [np.flatnonzero(mine & ~once)] * (passes - 1) + [np.flatnonzero(mine)]
    made = copied(graph, rows)
    ops = replace(made.graph.ops, instance=_apart(made))
    facts = replace(graph.facts, samples=graph.facts.samples * passes)
    across = _across(graph, links, made, passes)
    deps = Links.of(made.graph).joined(across).columns(len(made.graph))
    return replace(made.graph, ops=ops, deps=deps, facts=facts)


def _once(graph: Graph, links: Links, calls: Int64) -> Bool:
    """What a step does once, however many passes it has."""
    ops, lanes, count = graph.ops, graph.lanes, len(graph)
    found = ops.phase == Phase.UPDATE
    found[calls] = True
    theirs = among(len(lanes), ops.lane[calls]) & (lanes.kind == LaneKind.COMM_THREAD)
    fed = among(count, links.op[links.kind == DepKind.GRADIENT])
    found |= fed & (ops.kind == OpKind.HOST) & theirs[ops.lane]  # delays on the library's thread
    for rank, step in set(zip(ops.rank[calls].tolist(), ops.step[calls].tolist())):
        mine = calls[(ops.rank[calls] == rank) & (ops.step[calls] == step)]
        back = copy_back(graph, links, mine)
        on_thread = lanes.kind[ops.lane[back.first]] == LaneKind.THREAD
        found[back.removable(graph, links, mine) if on_thread else back.work] = True
    once: Bool = found | _launches(graph, links, found)
    return once


def _launches(graph: Graph, links: Links, gone: Bool) -> Bool:
    """The host's calls that hand over nothing else, and make no gradient."""
    launching = links.kind == DepKind.LAUNCH
    count = len(graph)
    found = among(count, links.src[launching & gone[links.op]])
    found &= ~among(count, links.src[launching & ~gone[links.op]])
    found &= (graph.ops.kind == OpKind.HOST) & (graph.ops.tensor == NONE)
    return found


def _across(graph: Graph, links: Links, made: Copied, passes: int) -> Links:
    """A step's first pass waits for the last pass of another, as the recorded steps did."""
    number = np.searchsorted(np.unique(graph.ops.step), graph.ops.step)
    outside = links.where(number[links.op] != number[links.src])
    op = made.of(outside.op, passes * number[outside.op])
    src = made.of(outside.src, passes * number[outside.src] + passes - 1)
    moved = Links(op, src, outside.kind, outside.inferred)
    return moved.where((op != NONE) & (src != NONE))


def _apart(made: Copied) -> "np.ndarray[tuple[int], np.dtype[np.int32]]":
    """Collectives of different passes are different."""
    instance = made.graph.ops.instance
    found = np.full(len(instance), NONE, np.int32)
    members = instance != NONE
    width = int(instance.max(initial=NONE)) + 1
    numbers = made.copy[members] * width + instance[members]
    found[members] = np.unique(numbers, return_inverse=True)[1]
    return found
