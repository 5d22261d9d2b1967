"""`Site`: what a job of equal ranks must know of a cluster: a device, its neighbours, the network.

A host is one NVLink domain. Hosts are filled evenly: of domains of 72 devices, a job of 256 takes
64 in each of four.
"""

from dataclasses import dataclass, field

from paceline.cluster import Cluster, ClusterError, Device, Network
from paceline.cluster.machine import Machine
from paceline.graph.kinds import DeviceKind


@dataclass(frozen=True)
class Site:
    """`nic_bytes_per_s` is one device's share of its host's NICs. Processors exchange by gloo over
    their `network`; GPUs have none here, and exchange by NCCL. All ranks may
    share the cores of one `machine`, as in the lab."""

    device: Device
    ranks: int
    per_host: int
    fabric_bytes_per_s: float
    nic_bytes_per_s: float
    latency_ns: int
    network: Network | None = field(default=None, compare=False)
    machine: Machine | None = None

    @property
    def crowd(self) -> float:
        """Ranks for each core that they share, where they are more."""
        return 1.0 if self.machine is None else max(1.0, self.ranks / self.machine.cores)

    @property
    def hosts(self) -> int:
        return self.ranks // self.per_host


@dataclass(frozen=True)
class Ring:
    """`ranks` members, each `stride` ranks from the next."""

    ranks: int
    stride: int = 1
    crossing: float = 1.0  # share of an all-to-all's bytes to other hosts that is sent

    def inside(self, site: Site) -> int:
        """How many of them share a host."""
        if self.stride >= site.per_host:
            return 1
        return max(1, min(self.ranks, site.per_host // self.stride))


def site_of(cluster: Cluster, ranks: int = 0, machine: Machine | None = None) -> Site:
    """The site of a job of so many ranks (all devices where 0); refuses unequal hosts, and GPUs on
    one machine's cores."""
    ranks = ranks or cluster.workers
    cluster.require(ranks)
    host, link = cluster.hosts[0], cluster.link_of(0)
    for at, other in enumerate(cluster.hosts):
        alike = (other.device == host.device and other.devices == host.devices
                 and other.nics == host.nics and cluster.link_of(at) == link)  # fmt: skip
        if not alike:
            raise ClusterError(
                f"host {other.name} ({other.devices} x {other.device.name}) differs from "
                f"{host.name} ({host.devices} x {host.device.name}); a plan of equal ranks needs "
                "equal hosts. Plan for one kind of host at a time."
            )
    processors = host.device.kind is DeviceKind.CPU
    if machine is not None and not processors:
        raise ClusterError(
            f"ranks share the cores of one machine, but {host.name} has {host.device.name}; leave "
            "the cores away, or describe hosts with a processor as their device"
        )
    per_host = max(n for n in range(1, min(host.devices, ranks) + 1) if ranks % n == 0)
    efficiency = cluster.transport.efficiency
    rate = min(link.free_up_bytes_per_s, link.free_down_bytes_per_s) * efficiency
    fabric = host.fabric.free_up_bytes_per_s if host.fabric else host.device.link_bytes_per_s
    return Site(
        device=host.device,
        ranks=ranks,
        per_host=per_host,
        fabric_bytes_per_s=fabric * cluster.transport.fabric_efficiency,
        nic_bytes_per_s=rate * host.nics / host.devices,
        latency_ns=link.latency_ns,
        network=Network(cluster) if processors else None,
        machine=machine,
    )
