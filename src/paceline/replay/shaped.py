"""`shaped_links`: messages over shaped links, as a lab has them, for `replay`."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

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

    return Transfers(
        messages.carried, lambda: on(None), on, lambda hosts: columns_of(messages, hosts)
    )


def columns_of(messages: ShapedMessages, hosts: SharedHosts | None) -> dict[str, NDArray[Any]]:
    """The messages, their links and how these are shaped, as an engine reads them."""
    if hosts is not None:
        messages.check(min(hosts.cores))
    shaping = messages.shaping
    numbers = {
        "cpu_ns_per_byte": np.array([shaping.cpu_ns_per_byte], np.float64),
        "window_bytes": np.array([shaping.window_bytes], np.float64),
        "message_ns": np.array([shaping.message_ns], np.int64),
        "late_ns": np.array([shaping.late_ns], np.int64),
    }
    return {
        f"shaped_{name}": column for name, column in {**_table(messages, hosts), **numbers}.items()
    }


def _table(messages: ShapedMessages, hosts: SharedHosts | None) -> dict[str, NDArray[Any]]:
    machine = np.array(hosts.machine if hosts else (), np.int32)
    return {
        "message_of_op": messages.of_op,
        "size": messages.size_bytes,
        "link_ptr": messages.link_ptr,
        "link": messages.link,
        "capacity": messages.capacity,
        "burst": np.array(messages.shaping.burst_bytes, np.float64),
        "source": machine[messages.source] if hosts else machine,
        "target": machine[messages.target] if hosts else machine,
        "other": messages.other,
        "cores": np.array(hosts.cores if hosts else (), np.float64),
    }


def _native(core: Any, messages: ShapedMessages, hosts: SharedHosts | None) -> Any:
    shaping = messages.shaping
    table = core.ShapedTable(**_table(messages, hosts))
    return core.ShapedFlows(
        table,
        cpu_ns_per_byte=float(shaping.cpu_ns_per_byte),
        message_ns=shaping.message_ns,
        late_ns=shaping.late_ns,
        window_bytes=float(shaping.window_bytes),
    )
