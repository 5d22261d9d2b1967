"""`prefetched`: how many batches loaders prepare ahead of the training thread.

A worker begins a batch when the thread has taken the one that stands `workers x batches` before it,
as PyTorch's DataLoader hands out indices.
"""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from paceline.errors import GraphError
from paceline.graph.graph import Graph, Int64
from paceline.graph.kinds import DepKind, OpKind, Phase
from paceline.graph.links import Links


def prefetched(graph: Graph, batches: int) -> Graph:
    """A graph with loaders (`loaded_beside`), each of them `batches` ahead."""
    loading = graph.facts.loading
    links = Links.of(graph)
    takes = _takes(graph, links)
    if not loading.workers or not len(takes):
        raise GraphError(
            "the graph shows no workers that prepare batches, so none can prepare more of them "
            "ahead. Ask for workers first: data_workers(count=1)"
        )
    held = links.kind == DepKind.CONTROL
    held &= np.isin(links.src, takes)  # what an earlier depth held back
    pairs = list(_held_back(graph, links, takes, loading.workers * batches))
    waits, sources = (np.array(each, np.int64) for each in (zip(*pairs) if pairs else ((), ())))
    fresh = Links.all_of(waits, sources, DepKind.CONTROL)
    facts = replace(graph.facts, loading=replace(loading, prefetch=batches))
    joined = links.where(~held).joined(fresh)
    return replace(graph, deps=joined.columns(len(graph)), facts=facts)


def _takes(graph: Graph, links: Links) -> Int64:
    """Where training threads take batches: ops that wait for an op of a loader's lane."""
    ops = graph.ops
    handed = (ops.kind[links.op] == OpKind.HOST) & (ops.phase[links.op] == Phase.DATA)
    handed &= (links.kind == DepKind.DATA) & (ops.lane[links.op] != ops.lane[links.src])
    return np.unique(links.op[handed])


def _held_back(graph: Graph, links: Links, takes: Int64, ahead: int) -> Iterator[tuple[int, int]]:
    """(the first op of a batch, the taking that lets it begin)."""
    ops = graph.ops
    for rank in np.unique(ops.rank[takes]).tolist():
        mine = takes[ops.rank[takes] == rank]
        begins = [_begin(graph, links, int(take)) for take in mine]
        yield from zip(begins[ahead:], mine.tolist())


def _begin(graph: Graph, links: Links, take: int) -> int:
    """The first op of the batch that is taken: from the op that hands it over back along links of
    the same step."""
    ops, op = graph.ops, take
    while True:
        sources = links.src[(links.op == op) & (links.kind == DepKind.DATA)]
        same = sources[(ops.step[sources] == ops.step[take]) & (sources < op)]
        if not len(same):
            return op
        op = int(same.max())
