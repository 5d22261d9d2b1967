"""`flows`: transfers that share a cluster's links while they are under way, for `replay`.

Each collective or message is one flow with its bytes on every link; flows share links max-min
fairly (`paceline.cost.flows`), so two all-reduces that overlap on a link slow each other.
"""

from collections import defaultdict
from typing import Any

from numpy.typing import NDArray

from paceline.cluster import Cluster
from paceline.cost import Carried, Rates, carried
from paceline.cost.flows import SharedLinks
from paceline.engine import native
from paceline.graph import Graph
from paceline.replay.pace import Transfers


def flows(
    graph: Graph, cluster: Cluster, rates: Rates | None = None, *, reference: bool = False
) -> Transfers:
    """Give to `replay(graph, prices=..., transfers=flows(graph, cluster))`."""
    found = carried(graph, cluster, rates)
    core = None if reference else native()
    if core is None:
        return Transfers(found.carried, lambda: FlowPace(found), columns=lambda _: _columns(found))
    return Transfers(
        found.carried,
        lambda: core.CarriedFlows(found.table.native, found.flow_of_op),
        columns=lambda _: _columns(found),
    )


def _columns(found: Carried) -> dict[str, NDArray[Any]]:
    table = found.table
    return {
        "flows_flow_of_op": found.flow_of_op,
        "flows_size": table.size_bytes,
        "flows_tail_ns": table.tail_ns,
        "flows_link_ptr": table.link_ptr,
        "flows_link": table.link,
        "flows_weight": table.weight,
        "flows_capacity": table.capacity,
    }


class FlowPace:
    """The `Pace` of carried ops, in plain Python."""

    def __init__(self, found: Carried) -> None:
        self._flow_of_op = found.flow_of_op.tolist()
        self._links = SharedLinks(found.table)
        self._members: dict[int, list[int]] = defaultdict(list)

    def begin(self, op: int, now_ns: int) -> None:
        flow = self._flow_of_op[op]
        if not self._members[flow]:
            self._links.begin(flow, now_ns)
        self._members[flow].append(op)

    def settle(self, now_ns: int) -> None:
        self._links.settle(now_ns)

    def next_end(self) -> int | None:
        return self._links.next_end()

    def take_ended(self, now_ns: int) -> list[int]:
        ended = self._links.take_ended(now_ns)
        return sorted(op for flow in ended for op in self._members.pop(flow))
