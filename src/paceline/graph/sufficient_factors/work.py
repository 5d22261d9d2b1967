"""What takes longer, and what goes, where a weight's gradient is made of all ranks' rows."""

from dataclasses import dataclass

import numpy as np

from paceline.graph.graph import Bool, Graph, Int64
from paceline.graph.kinds import NONE, OpKind
from paceline.graph.membership import among
from paceline.graph.rank_steps import lasts
from paceline.graph.rebucket.source import Source
from paceline.graph.weight_products import WeightGradients, within


@dataclass(frozen=True, eq=False)
class FactorWork:
    """By op."""

    makes: Bool  # the weight's gradient and the bias's
    copies: Bool  # it into a bucket


def work_of(graph: Graph, made: WeightGradients) -> FactorWork:
    """Of a stretch's ops of the layer those make its gradients that touch bytes, or all where none
    tells; what stands behind them copies."""
    ops, count = graph.ops, len(made.first)
    of, rows = within(graph, made.first, made.last)
    computes = ops.kind[rows] == OpKind.COMPUTE
    mine = computes & (ops.layer[rows] != NONE)
    tells = mine & ((ops.flops[rows] > 0) | (ops.size_bytes[rows] > 0))
    silent = ~among(count, of[tells])[of]
    behind = rows > lasts(of[mine], rows[mine], count)[of]
    return FactorWork(
        among(len(graph), rows[tells | (mine & silent)]),
        among(len(graph), rows[computes & behind]),
    )


def copies_back(graph: Graph, source: Source) -> Int64:
    """What copies reduced gradients out of their buckets."""
    work = source.back.work
    found: Int64 = work[graph.ops.kind[work] == OpKind.COMPUTE]
    return np.unique(found)
