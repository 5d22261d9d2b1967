"""`shaped_links`: messages over shaped links, as a lab has them, for `replay`."""

from typing import Any

import numpy as np

from paceline.cluster import Cluster
from paceline.cluster.network import Network
from paceline.engine import native
from paceline.graph import Graph
from paceline.replay.hosts import SharedHosts
from paceline.replay.messages import ShapedMessages, Shaping
from paceline.replay.pace import HostPace, Transfers
from paceline.replay.shaped_pace import ShapedPace


def shaped_links(
    graph: Graph, cluster: Cluster, shaping: Shaping, *, reference: bool = False
) -> Transfers:
    """Give to `replay(graph, transfers=shaped_links(graph, cluster, shaping))`.

    With `hosts` beside it, messages take processor time by the byte, half of it at either end,
    before any work; without, they wait for links alone. `reference` asks for the pace in plain
    Python.
    """
    messages = ShapedMessages.of(graph, Network(cluster), shaping)

    def on(hosts: SharedHosts | None) -> HostPace:
        if hosts is not None:
            messages.check(min(hosts.cores))
        core = None if reference else native()
        return ShapedPace(messages, hosts) if core is None else _native(core, messages, hosts)

    return Transfers(messages.carried, lambda: on(None), on)


def _native(core: Any, messages: ShapedMessages, hosts: SharedHosts | None) -> Any:
    shaping = messages.shaping
    machine = np.array(hosts.machine if hosts else (), np.int32)
    table = core.ShapedTable(
        message_of_op=messages.of_op,
        size=messages.size_bytes,
        link_ptr=messages.link_ptr,
        link=messages.link,
        capacity=messages.capacity,
        burst=np.array(shaping.burst_bytes, np.float64),
        source=machine[messages.source] if hosts else machine,
        target=machine[messages.target] if hosts else machine,
        cores=np.array(hosts.cores if hosts else (), np.float64),
    )
    return core.ShapedFlows(
        table,
        cpu_ns_per_byte=float(shaping.cpu_ns_per_byte),
        message_ns=shaping.message_ns,
        late_ns=shaping.late_ns,
        window_bytes=float(shaping.window_bytes),
    )
