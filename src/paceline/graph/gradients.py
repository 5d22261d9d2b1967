"""Gradients in a graph: the ops that ready them, and the collectives that reduce them."""

from dataclasses import dataclass

import numpy as np

from paceline.errors import GraphError
from paceline.graph.graph import Graph, Int64
from paceline.graph.kinds import NONE, Axis, Collective, DepKind, OpKind
from paceline.graph.links import Links


@dataclass(frozen=True, eq=False)
class Gradients:
    """Ops that ready a gradient, ascending, and which of the job's parameters each readies."""

    op: Int64
    parameter: Int64


def gradients_of(graph: Graph) -> Gradients:
    number = {p.name: i for i, p in enumerate(graph.facts.parameters)}
    of_text = np.array([number.get(name, NONE) for name in graph.names] + [NONE], np.int64)
    parameter = of_text[graph.ops.tensor]
    rows = np.flatnonzero(parameter != NONE)
    return Gradients(rows, parameter[rows])


def reducing(graph: Graph, links: Links) -> Int64:
    """All-reduces of gradient buckets: gradients lead into them, and replicas take part."""
    ops = graph.ops
    data = [row for row, group in enumerate(graph.groups) if group.axis is Axis.DATA]
    fed = np.zeros(len(graph), np.bool_)
    fed[links.op[links.kind == DepKind.GRADIENT]] = True
    reduces = (ops.kind == OpKind.COLLECTIVE) & (ops.collective == Collective.ALL_REDUCE)
    return np.flatnonzero(reduces & fed & np.isin(ops.group, data))


def ready_order(graph: Graph, found: Gradients) -> tuple[int, ...]:
    """Parameters as their gradients become ready in the first step of the first rank that has
    any; an error where the graph does not say it of every parameter."""
    if len(found.op):
        ops = graph.ops
        first = found.op[0]
        mine = (ops.rank[found.op] == ops.rank[first]) & (ops.step[found.op] == ops.step[first])
        order = tuple(dict.fromkeys(found.parameter[mine].tolist()))
        if len(order) == len(graph.facts.parameters):
            return order
    raise GraphError(
        "the recording does not say when each gradient is ready, so its buckets cannot be "
        "changed. Record a job under DDP with `paceline record`."
    )
