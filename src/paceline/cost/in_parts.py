"""`in_parts`: a worker's passes over its batch, made in equal parts one after the other.

An operator on half of the samples takes more than half of its time, as `paceline measure --for RUN`
finds: it reads its weights again, and is called again. So its time is taken to have a part that
does not shrink with the samples. What has no work of its own, and the host's time between calls, is
spent once for each part. And the gradients of weights are added up.
"""

from dataclasses import dataclass

import numpy as np

from paceline.cost.variants import ratios_of
from paceline.graph import NONE, Basis, Graph, Phase
from paceline.graph.graph import Bool
from paceline.graph.membership import among
from paceline.graph.scaled import Factors, scaled, works
from paceline.graph.variants import Variant
from paceline.graph.work import Matrix

_PASSES = among(len(Phase), np.array([Phase.FORWARD, Phase.BACKWARD]))


@dataclass(frozen=True)
class Parts:
    """Of a worker's batch: how many, and how often the gradient of a part is added to others."""

    count: int
    sums: float


def in_parts(graph: Graph, parts: Parts) -> Graph:
    """Each op of the passes takes as long as all of its parts together; as long as before where
    nothing was measured."""
    if not halves_known(graph):
        return graph
    rows = works(graph) & _PASSES[graph.ops.phase]
    factor = 1 + (parts.count - 1) * _that_stays(graph) + parts.sums * _that_adds(graph)
    return scaled(graph, rows, factor, Basis.MEASURED)


def halves_known(graph: Graph) -> bool:
    return bool(ratios_of(graph, Variant.HALVED))


def _that_stays(graph: Graph) -> Factors:
    """The share of each op's time that does not shrink with the samples."""
    known = ratios_of(graph, Variant.HALVED)
    by_name = np.full(len(graph.names) + 1, np.nan)
    for at, name in enumerate(graph.names):
        if name in known:
            by_name[at] = min(1.0, max(0.0, 2 * known[name].value - 1))
    found = by_name[graph.ops.name]
    shrinks = np.where(graph.ops.work != NONE, 0.0, 1.0)
    return np.where(np.isnan(found), shrinks, found)


def _that_adds(graph: Graph) -> Factors:
    """What it takes to add a weight's gradient to another, as a share of the time to make it."""
    known = ratios_of(graph, Variant.ADDED)
    found = np.zeros(len(graph))
    for at, name in enumerate(graph.names):
        if name in known:
            found[graph.ops.name == at] = max(0.0, known[name].value - 1)
    return found * _makes_weights(graph)


def _makes_weights(graph: Graph) -> Factors:
    """Products of the backward pass whose result has the shape of their layer's weight: certainly,
    or as likely as not where that of the other product has it too."""
    shapes = {(p.layer, p.shape) for p in graph.facts.parameters if len(p.shape) == 2}
    rows: Bool = (graph.ops.phase == Phase.BACKWARD) & (graph.ops.work != NONE)
    found = np.zeros(len(graph))
    for row in np.flatnonzero(rows & (graph.ops.layer != NONE)).tolist():
        dims = graph.works[graph.ops.work[row]].work.dims
        layer = graph.names[graph.ops.layer[row]]
        if isinstance(dims, Matrix) and (layer, (dims.m, dims.n)) in shapes:
            found[row] = 0.5 if dims.m == dims.n == dims.k else 1.0
    return found
