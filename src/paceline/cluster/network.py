"""`Network`: a cluster's one-way links with what each carries, and the path between two workers."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from paceline.cluster.cluster import Cluster, Transport
from paceline.cluster.routes import Routes
from paceline.cluster.topologies import Cable, Port


@dataclass(frozen=True)
class OneWay:
    """One direction of one cable. `bytes_per_s` is what is left for payload."""

    name: str
    bytes_per_s: float
    latency_ns: int


class Network:
    """Links and routes of one cluster; `routes` may be shared with a network cabled alike."""

    def __init__(self, cluster: Cluster, routes: Routes | None = None) -> None:
        self.cluster = cluster
        self.routes = routes or Routes(cluster)

    def with_transport(self, transport: Transport) -> "Network":
        """The same cables and routes, of which payload reaches other shares."""
        return Network(replace(self.cluster, transport=transport), self.routes)

    @cached_property
    def links(self) -> tuple[OneWay, ...]:
        share = self.cluster.transport.efficiency
        name = _namer(self.cluster, self.routes.ports)
        found = _inside_links(self.cluster)
        for c in self.routes.cables:
            found.append(OneWay(name(c.a, c.b), c.ab_bytes_per_s * share, c.latency_ns))
            found.append(OneWay(name(c.b, c.a), c.ba_bytes_per_s * share, c.latency_ns))
        return tuple(found)

    @cached_property
    def bytes_per_s(self) -> NDArray[np.float64]:
        return np.array([link.bytes_per_s for link in self.links], np.float64)

    @cached_property
    def latency_ns(self) -> NDArray[np.int64]:
        return np.array([link.latency_ns for link in self.links], np.int64)

    def path(self, src: int, dst: int) -> tuple[int, ...]:
        """Ids of the links that a message from worker to worker crosses; empty for itself."""
        return self.routes.path(src, dst)

    def path_latency_ns(self, src: int, dst: int) -> int:
        return sum(int(self.latency_ns[link]) for link in self.path(src, dst))

    def check(self, workers: int | None = None) -> None:
        """Refuse a cluster in which some worker cannot reach another. Cables go both ways."""
        self.routes.check(workers)


def _inside_links(cluster: Cluster) -> list[OneWay]:
    found, share = [], cluster.transport.fabric_efficiency
    for h, d in cluster.places:
        host = cluster.hosts[h]
        if host.fabric is not None:
            name, fabric = f"{host.name}.{d}", host.fabric
            out, back = fabric.free_up_bytes_per_s * share, fabric.free_down_bytes_per_s * share
            found.append(OneWay(f"{name} out", out, fabric.latency_ns))
            found.append(OneWay(f"{name} in", back, 0))
    return found


def _namer(cluster: Cluster, ports: Sequence[Port]) -> Callable[[int, int], str]:
    def node(i: int) -> str:
        if i >= len(ports):
            return f"switch {i - len(ports)}"
        host = cluster.hosts[ports[i].host]
        return host.name if host.nics == 1 else f"{host.name}:{ports[i].nic}"

    return lambda a, b: f"{node(a)} -> {node(b)}"


__all__ = ["Cable", "Network", "OneWay"]
