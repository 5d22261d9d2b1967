"""The interval of a prediction: every op errs by what is typical of what its duration rests on."""

from dataclasses import dataclass

import numpy as np

from paceline.cost import Prices
from paceline.graph import Basis, Graph
from paceline.graph.graph import Bool, Int64


@dataclass(frozen=True, eq=False)
class Interval:
    low_ns: Int64
    high_ns: Int64


def interval_of(graph: Graph, found: Prices, work: Bool) -> Interval:
    """Recorded work varies by as much as its steps did; all else by the basis of its price."""
    recorded = work & (found.basis == Basis.RECORDED)
    spread = work_spread(graph, recorded)
    if spread is None:
        return Interval(found.low_ns, found.high_ns)
    low = np.rint(found.dur_ns / (1 + spread)).astype(np.int64)
    high = np.rint(found.dur_ns * (1 + spread)).astype(np.int64)
    return Interval(np.where(recorded, low, found.low_ns), np.where(recorded, high, found.high_ns))


def work_spread(graph: Graph, rows: Bool) -> float | None:
    """Half of p10 to p90 of these ops over the recorded steps, as a share of their durations:
    stretches vary together, so they are summed. None where nothing tells."""
    spread = graph.spread
    if spread is None or not len(spread.samples_ns):
        return None
    sizes = np.diff(spread.ptr)
    width = int(sizes.max())
    told = np.flatnonzero(rows & (sizes == width))
    whole = int(np.maximum(graph.ops.dur_ns[rows], 0).sum())
    if width < 2 or not whole or not len(told):
        return None
    table = spread.samples_ns[spread.ptr[told][:, None] + np.arange(width)]
    low, high = np.percentile(table, [10, 90], axis=1)
    return float((high - low).sum() / 2 / whole)
