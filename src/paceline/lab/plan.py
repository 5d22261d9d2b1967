"""Cluster -> layout of the lab, with a word on all that the lab cannot reproduce. Pure."""

from collections.abc import Iterator

from paceline.cluster import Cluster
from paceline.cluster.tcp import queue_bytes
from paceline.cluster.topologies import Cable
from paceline.graph import DeviceKind
from paceline.lab.layout import End, Layout, Node, Stack, Wire


def plan(cluster: Cluster, name: str) -> Layout:
    """One node a host and a switch, one wire a cable; rates as the cluster's links have them."""
    ports = cluster.ports
    cables = cluster.topology.cables(ports)
    switches = max([0, *(max(c.a, c.b) + 1 - len(ports) for c in cables)])
    hosts = tuple(Node(h.name, h.devices, h.cpus) for h in cluster.hosts)
    return Layout(
        name=name,
        nodes=(*hosts, *(Node(f"switch-{i}") for i in range(switches))),
        wires=tuple(_wire(cluster, cable) for cable in cables),
        stack=Stack(cluster.transport.congestion, cluster.transport.gso_max_segs),
        limits=tuple(_limits(cluster)),
        switch=cluster.switch,
    )


def _wire(cluster: Cluster, cable: Cable) -> Wire:
    ports, link = cluster.ports, cluster.link_at(cable)

    def end(node: int, bytes_per_s: float) -> End:
        inside = node >= len(ports)
        row = len(cluster.hosts) + node - len(ports) if inside else ports[node].host
        return End(row, round(8 * bytes_per_s), queue_bytes(link), link.loss if link else 0.0)

    return Wire(end(cable.a, cable.ab_bytes_per_s), end(cable.b, cable.ba_bytes_per_s))


def _limits(cluster: Cluster) -> Iterator[str]:
    links = [cluster.link_of(h) for h in range(len(cluster.hosts))]
    if any(link.latency_ns for link in links):
        longest = max(link.latency_ns for link in links)
        yield (
            f"a link's latency of {longest / 1e3:g} us is not added: packets wait in queues only; "
            "a hop between namespaces takes some ten microseconds"
        )
    if any(link.background_up_bytes_per_s or link.background_down_bytes_per_s for link in links):
        yield "background load is taken off the links' rates, not sent"
    if any(host.devices > 1 for host in cluster.hosts):
        yield "workers of one host talk over its loopback, which is not shaped"
    if any(host.device.kind is not DeviceKind.CPU for host in cluster.hosts):
        yield "every device is a process on this machine's CPU cores"
