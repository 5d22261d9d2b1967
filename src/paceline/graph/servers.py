"""`with_servers`: gradients pushed to parameter servers, and weights pulled, for all-reduce."""

from dataclasses import replace

import numpy as np

from paceline.graph.gradients import no_exchange, reducing
from paceline.graph.graph import Graph, Int64
from paceline.graph.kinds import UNPRICED, Collective, DepKind
from paceline.graph.links import Links
from paceline.graph.splice import Added, spliced


def with_servers(graph: Graph) -> Graph:
    """Each bucket's all-reduce becomes a push, and a pull behind it on the same lane; who waited
    for the one waits for the pull."""
    links = Links.of(graph)
    old = reducing(graph, links)
    if not len(old):
        raise no_exchange(
            graph,
            "the recording does not say which collectives reduce gradients, so they cannot be sent "
            "to parameter servers. Record a job under DDP with `paceline record`.",
        )
    pull = np.arange(len(graph), dtype=np.int64)
    pull[old] = len(graph) + np.arange(len(old))
    waited = Links(links.op, pull[links.src], links.kind, links.inferred)
    behind = Links.all_of(pull[old], old, DepKind.LAUNCH)
    first = int(graph.ops.instance.max(initial=0)) + 1
    columns = {
        "collective": np.full(len(old), Collective.PULL),
        "dur_ns": np.full(len(old), UNPRICED),
        "instance": first + graph.ops.instance[old],
    }
    return spliced(
        _pushing(graph, old), np.zeros(len(graph), np.bool_), Added(old, old, columns),
        waited.joined(behind),
    )  # fmt: skip


def _pushing(graph: Graph, old: Int64) -> Graph:
    collective, dur = graph.ops.collective.copy(), graph.ops.dur_ns.copy()
    collective[old], dur[old] = Collective.PUSH, UNPRICED
    return replace(graph, ops=replace(graph.ops, collective=collective, dur_ns=dur))
