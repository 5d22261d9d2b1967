"""`Sends`: what a rank hands over for its gradients in a step, and of pairs of layers that workers
share for their rows, by a graph; a plan carries it.

A live job under the plan counts the same, so both stand beside each other.
"""

from dataclasses import dataclass

import numpy as np

from paceline.cost.collectives.volume import sent_share
from paceline.graph import Axis, Collective, Graph, OpKind
from paceline.graph.gradients import reducing
from paceline.graph.graph import Int64
from paceline.graph.kinds import Phase
from paceline.graph.links import Links


@dataclass(frozen=True)
class Sends:
    """Of a mean rank and step."""

    calls: float
    payload_bytes: float
    wire_bytes: float  # what a mean member of a ring sends


def sends_of(graph: Graph) -> Sends | None:
    """None where the graph shows no exchange of whole gradients among replicas."""
    calls, ops = exchanging(graph), graph.ops
    if not len(calls):
        return None
    share = [
        sent_share(Collective(collective), len(graph.groups[group].ranks))
        for collective, group in zip(ops.collective[calls].tolist(), ops.group[calls].tolist())
    ]
    times = len(np.unique(np.stack([ops.rank[calls], ops.step[calls]]), axis=1).T)
    size = ops.size_bytes[calls]
    return Sends(len(calls) / times, float(size.sum()) / times, float((size * share).sum()) / times)


def exchanging(graph: Graph) -> Int64:
    """Collectives of gradients, packed or not, and of rows that are packed for those who share
    layers. What packs is work for the sake of communication."""
    links, ops = Links.of(graph), graph.ops
    packs = (ops.kind == OpKind.COMPUTE) & (ops.phase == Phase.COMMUNICATION)
    behind = np.zeros(len(graph), np.bool_)
    behind[links.op[packs[links.src]]] = True
    shared = [row for row, g in enumerate(graph.groups) if g.axis in (Axis.DATA, Axis.TENSOR)]
    talks = (ops.kind == OpKind.COLLECTIVE) & np.isin(ops.group, shared)
    found: Int64 = np.union1d(reducing(graph, links), np.flatnonzero(talks & behind))
    return found
