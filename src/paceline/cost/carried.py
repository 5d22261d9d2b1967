"""A graph's communication as flows: one flow a collective or message, and which op it carries.

`replay` keeps the flows that are under way at one time on shared links; see
`paceline.replay.flows`.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from paceline.cluster import Cluster, Network
from paceline.cost.calls import calls_of
from paceline.cost.collectives import Call, Library, choose
from paceline.cost.flows import Flow, FlowTable, coflow
from paceline.cost.rates import Rates
from paceline.graph import Graph
from paceline.graph.graph import Bool, Int32
from paceline.graph.kinds import NONE


@dataclass(frozen=True, eq=False)
class Carried:
    """Which flow carries each op (NONE for others), and the flows."""

    flow_of_op: Int32
    table: FlowTable

    @property
    def carried(self) -> Bool:
        return np.asarray(self.flow_of_op != NONE)


def carried(graph: Graph, cluster: Cluster, rates: Rates | None = None) -> Carried:
    """Flows for all communication of a graph. Members of an instance share one."""
    network, rates = Network(cluster), rates or Rates()
    cluster.require(graph.world_size)
    library = rates.library_of(cluster)
    calls = calls_of(graph, cluster, library)
    kinds = [
        _flow(call, network, library, graph.groups[group].ranks)
        for call, group in zip(calls.each, calls.groups)
    ]
    flow_of_op = np.full(len(graph), NONE, np.int32)
    joined = graph.ops.instance[calls.rows]
    keys = np.where(joined == NONE, -1 - calls.rows, joined)
    _, first, flow = np.unique(keys, return_index=True, return_inverse=True)
    flow_of_op[calls.rows] = flow.ravel()
    flows = [kinds[calls.which[row]] for row in first]
    return Carried(flow_of_op, FlowTable.of(flows, network.bytes_per_s))


def _flow(call: Call, network: Network, library: Library, workers: Sequence[int]) -> Flow:
    if call.members < 2:
        return Flow(0.0, {}, 0)
    return coflow(choose(library, call), call, network, workers, library)
