"""Batches brought in otherwise: from memory, or from files of another format."""

from dataclasses import replace

import numpy as np

from paceline.errors import GraphError
from paceline.graph.facts import Stored
from paceline.graph.graph import Graph
from paceline.graph.kinds import OpKind
from paceline.graph.loaders import loads_of


def kept_in_memory(graph: Graph) -> Graph:
    """Nothing is read or decoded any more; copying samples into a batch stays."""
    return _brought_in(graph, Stored("memory", 0, 0))


def from_format(graph: Graph, name: str) -> Graph:
    """Batches take what was measured of that format."""
    known = {each.format: each for each in graph.facts.loading.formats}
    if name not in known:
        told = f"it tells {', '.join(known)}" if known else "it tells none"
        raise GraphError(
            f"the graph does not tell what this job's samples take in format {name!r} ({told}). "
            "`paceline io run DATA --formats all -o RUN` measures samples of a data set in each"
        )
    return _brought_in(graph, known[name])


def _brought_in(graph: Graph, stored: Stored) -> Graph:
    """Each batch in proportion to what it took, so that large samples stay large."""
    ops = graph.ops
    loads = loads_of(graph)
    dur = ops.dur_ns.astype(np.float64)
    for rows, wanted in (
        (loads & (ops.kind == OpKind.WAIT), stored.blocked_ns),
        (loads & (ops.kind != OpKind.WAIT) & (ops.kind != OpKind.COPY), stored.work_ns),
    ):
        total, batches = dur[rows].sum(), len(np.unique(ops.step[loads]))
        if total:
            dur[rows] *= wanted * batches * len(np.unique(ops.rank[loads])) / total
    found = np.rint(dur).astype(np.int64)
    return replace(graph, ops=replace(ops, dur_ns=found))
