"""`Routes`: which links a message from worker to worker crosses, whatever rate they have.

Paths are shortest paths; where several are equally short one is picked by a fixed hash of both
ends, as switches pick by flow. Links of one host come first: a device's own way out and in.
"""

from collections import deque
from functools import cached_property

from paceline.cluster.cluster import Cluster
from paceline.cluster.quantities import ClusterError


class Routes:
    """Routes of one cluster, found when asked for, and kept."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.ports = cluster.ports
        self.cables = cluster.topology.cables(self.ports)
        self.first_cable = 2 * len(self._inside_index)
        self._port_of = {(port.host, port.nic): i for i, port in enumerate(self.ports)}
        self._paths: dict[tuple[int, int], tuple[int, ...]] = {}
        self._hops: dict[int, dict[int, int]] = {}

    def path(self, src: int, dst: int) -> tuple[int, ...]:
        """Ids of the links that a message from worker to worker crosses; empty for itself."""
        known = self._paths.get((src, dst))
        if known is None:
            known = self._paths[src, dst] = self._find(src, dst)
        return known

    def check(self, workers: int | None = None) -> None:
        """Refuse a cluster in which some worker cannot reach another. Cables go both ways."""
        workers = self.cluster.workers if workers is None else workers
        self.cluster.require(workers)
        used = {self._port(worker) for worker in range(workers)}
        reached, queue = {self._port(0)}, deque([self._port(0)])
        while queue:
            for node, _ in self._neighbours[queue.popleft()]:
                if node not in reached:
                    reached.add(node)
                    queue.append(node)
        if lost := sorted(used - reached):
            raise self._apart(self._port(0), lost[0])
        for worker, (host, device) in enumerate(self.cluster.places[:workers]):
            if device == 1:
                self._within(worker - 1, worker, host)

    def _port(self, worker: int) -> int:
        host, device = self.cluster.place_of(worker)
        return self._port_of[host, _nic(self.cluster, host, device)]

    def _find(self, src: int, dst: int) -> tuple[int, ...]:
        if src == dst:
            return ()
        host, far_host = self.cluster.place_of(src)[0], self.cluster.place_of(dst)[0]
        if host == far_host:
            return self._within(src, dst, host)
        return self._across(self._port(src), self._port(dst))

    def _within(self, src: int, dst: int, host: int) -> tuple[int, ...]:
        if self.cluster.hosts[host].fabric is None:
            raise ClusterError(
                f"workers {src} and {dst} share host {self.cluster.hosts[host].name}, which has "
                "no fabric; give `fabric: nvlink-4` or another link between its devices"
            )
        return (2 * self._inside_index[src], 2 * self._inside_index[dst] + 1)

    @cached_property
    def _inside_index(self) -> dict[int, int]:
        hosts = self.cluster.hosts
        workers = [w for w, (h, _) in enumerate(self.cluster.places) if hosts[h].fabric is not None]
        return {worker: i for i, worker in enumerate(workers)}

    @cached_property
    def _neighbours(self) -> dict[int, list[tuple[int, int]]]:
        """(next node, link id) of every node."""
        found: dict[int, list[tuple[int, int]]] = {i: [] for i in range(len(self.ports))}
        for i, cable in enumerate(self.cables):
            link = self.first_cable + 2 * i
            found.setdefault(cable.a, []).append((cable.b, link))
            found.setdefault(cable.b, []).append((cable.a, link + 1))
        return found

    def _across(self, start: int, end: int) -> tuple[int, ...]:
        last = self._uplink(end)  # a single-homed port is reached through its switch
        goal = end if last is None else last[0]
        hops, node, path = self._hops_to(goal), start, []
        first = self._uplink(start)
        if first is not None and last is not None:
            path, node = [first[1]], first[0]
        if node not in hops:
            raise self._apart(start, end)
        while node != goal:
            ways = [w for w in self._neighbours[node] if hops.get(w[0], -1) == hops[node] - 1]
            node, link = ways[_mix(start, end) % len(ways)]
            path.append(link)
        if last is not None:
            path.append(self._reverse(last[1]))
        return tuple(path)

    def _reverse(self, link: int) -> int:
        return self.first_cable + ((link - self.first_cable) ^ 1)

    def _uplink(self, port: int) -> tuple[int, int] | None:
        """(switch, link to it) of a port that has one cable, into a switch."""
        ways = self._neighbours[port]
        return ways[0] if len(ways) == 1 and ways[0][0] >= len(self.ports) else None

    def _hops_to(self, goal: int) -> dict[int, int]:
        """Cables between each node and the goal; single-homed ports are left out."""
        if goal not in self._hops:
            found, queue = {goal: 0}, deque([goal])
            while queue:
                node = queue.popleft()
                for far, _ in self._neighbours[node]:
                    if far not in found and (far >= len(self.ports) or self._uplink(far) is None):
                        found[far] = found[node] + 1
                        queue.append(far)
            self._hops[goal] = found
        return self._hops[goal]

    def _apart(self, start: int, end: int) -> ClusterError:
        return ClusterError(
            f"{self._port_name(start)} cannot reach {self._port_name(end)}: no cables join them in "
            f"topology {self.cluster.topology.kind}; add a cable or a switch"
        )

    def _port_name(self, port: int) -> str:
        return self.cluster.hosts[self.ports[port].host].name


def _nic(cluster: Cluster, host: int, device: int) -> int:
    """Devices share NICs in equal runs: 8 devices and 4 NICs pair up as 0 0 1 1 2 2 3 3."""
    made = cluster.hosts[host]
    return device * made.nics // made.devices


def _mix(a: int, b: int) -> int:
    """A fixed hash that spreads neighbouring pairs."""
    return ((a * 0x9E3779B1 + b * 0x85EBCA77) & 0xFFFFFFFF) >> 13
