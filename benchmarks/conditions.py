"""Random graphs on random machines as a lab has them: shared cores, shaped links, contention."""

from dataclasses import dataclass, replace

import numpy as np

from paceline.cluster import Cluster, Device, Host, Link
from paceline.cluster.network import Network
from paceline.graph import Graph, OpKind
from paceline.graph.synthetic import jumble
from paceline.replay import Contention, Shaping, SharedHosts, Transfers, shaped_links
from paceline.replay.hosts import HostColumns
from paceline.replay.job import Shares

MESSAGES = (OpKind.SEND, OpKind.RECV)


@dataclass(frozen=True)
class Conditions:
    """What a random graph runs on."""

    seed: int
    turns: bool
    shaped: bool
    hosts: bool = True

    def graph(self) -> Graph:
        """Durations of 0 to 5 ns become odd ones of up to 5 ms, sizes up to 20 MB."""
        graph = jumble(self.seed, longest=150, recorded=self.seed % 4 > 0)
        random = np.random.default_rng(self.seed)
        stretch = 10 ** int(random.integers(7))
        dur_ns = graph.ops.dur_ns % 2**33 * stretch + random.integers(stretch, size=len(graph))
        size_bytes = graph.ops.size_bytes * 10 ** int(random.integers(6))
        return replace(graph, ops=replace(graph.ops, dur_ns=dur_ns, size_bytes=size_bytes))

    def machines(self, graph: Graph) -> SharedHosts | None:
        """Up to three machines, of too few cores or enough."""
        if not self.hosts:
            return None
        random = np.random.default_rng(self.seed)
        count, ranks = 1 + int(random.integers(3)), max(graph.ranks) + 1
        machine = tuple(random.integers(count, size=ranks).tolist())
        bare = SharedHosts(machine, tuple(random.choice([0.5, 1, 1.7, 4], count).tolist()))
        takes = ~HostColumns.of(graph, bare).works & (random.random(len(graph)) < 0.7)
        if self.shaped:
            takes &= ~np.isin(graph.ops.kind, MESSAGES)
        cpu_ns, turn_ns, beside_ns = (
            np.where(takes, graph.ops.dur_ns * random.random(len(graph)) * most, 0).astype(np.int64)
            for most in (1.5, 3.0 * self.turns, 0.7)
        )
        return replace(bare, cpu_ns=cpu_ns, turn_ns=turn_ns, beside_ns=beside_ns)

    def transfers(self, graph: Graph, *, reference: bool) -> Transfers | None:
        """Messages over a star of shaped links."""
        if not self.shaped:
            return None
        random = np.random.default_rng(self.seed)
        cluster = star(max(graph.ranks) + 1)
        shaping = Shaping(
            cpu_ns_per_byte=10 ** random.uniform(-3, 1),
            burst_bytes=tuple((10 ** random.uniform(0, 6, len(Network(cluster).links))).tolist()),
            message_ns=int(random.integers(50)),
            late_ns=int(random.integers(500)),
            window_bytes=float(random.choice([0, 1000, 1e5])),
            one_way=bool(random.integers(2)),
        )
        return shaped_links(graph, cluster, shaping, reference=reference)

    def shares(self, graph: Graph) -> Shares:
        """All that applies to the graph; contention where no cores are shared."""
        hosts, contention = self.machines(graph), None
        if hosts is None:
            slow = 1 + np.random.default_rng(self.seed).random(2)
            contention = Contention.everywhere(graph, compute=slow[0], communication=slow[1])
        return Shares(contention, self.transfers(graph, reference=False), hosts)


def star(workers: int) -> Cluster:
    hosts = tuple(Host(f"h{i}", Device("core")) for i in range(max(2, workers)))
    return Cluster(hosts, Link.both_ways(1e9))
