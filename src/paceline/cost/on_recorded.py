"""What changes add to a recorded job of a GPU, on that very GPU: kernels by forecasts of it, calls
of its host by what recorded ones took.
"""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from paceline.cluster.files import device as preset
from paceline.cost.forecast import Constants
from paceline.cost.forecasted import forecasted
from paceline.cost.ported import recorded_device
from paceline.graph import UNPRICED, Basis, DepKind, Graph, LaneKind, OpKind
from paceline.graph.graph import Int64
from paceline.graph.links import Links
from paceline.graph.scaled import ppb


def priced_on_recorded(graph: Graph, constants: Constants | None = None) -> Graph:
    """The graph with durations of what was added; ops that no forecast knows stay unpriced, and so
    do all of a job without a GPU that it names."""
    new = graph.ops.dur_ns == UNPRICED
    if not new.any() or not (graph.facts.gpus or graph.facts.carried_to):
        return graph
    dur, basis = graph.ops.dur_ns.astype(np.float64), graph.ops.basis.copy()
    streams = graph.lanes.kind[graph.ops.lane] == LaneKind.STREAM
    carried = graph.facts.carried_to
    device = preset(carried) if carried else recorded_device(graph)
    told = forecasted(graph, device, np.flatnonzero(new & streams), constants)
    calls = np.flatnonzero(new & ~streams & (graph.ops.kind == OpKind.HOST))
    dur[told.rows], basis[told.rows] = told.dur_ns, Basis.FORECAST
    dur[calls] = _call_ns(graph)
    basis[calls] = Basis.RECORDED
    found = np.where(new & (dur != UNPRICED), dur * ppb(graph), dur)
    return replace(graph, ops=replace(graph.ops, dur_ns=_ns(found), basis=basis))


def _call_ns(graph: Graph) -> float:
    """The median of the host's ops that launch a kernel, with what stands around the launch."""
    links = Links.of(graph)
    hosts = np.unique(links.src[links.kind == DepKind.LAUNCH])
    took = graph.ops.dur_ns[hosts]
    took = took[took != UNPRICED]
    return float(np.median(took)) if len(took) else 0.0


def _ns(values: NDArray[np.float64]) -> Int64:
    return np.rint(values).astype(np.int64)
