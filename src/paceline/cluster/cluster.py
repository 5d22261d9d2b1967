"""`Cluster`: hosts, devices, links. What `replay` simulates and `lab` stands up.

Workers fill hosts in order: worker 0 is the first device of the first host. Rates are bytes a
second, times nanoseconds; `up` is from the host into the network.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

from paceline.cluster.quantities import ClusterError
from paceline.cluster.switch import Switch
from paceline.cluster.topologies import Cable, Port, Star, Topology
from paceline.graph.kinds import DeviceKind, DType, Vendor


@dataclass(frozen=True)
class Device:
    """A processor by its datasheet. A zero is a figure that the datasheet does not give."""

    name: str
    kind: DeviceKind = DeviceKind.CPU
    memory_bytes: int = 0
    memory_bytes_per_s: float = 0.0
    units: int = 0  # streaming multiprocessors, compute units, or cores
    clock_hz: float = 0.0  # boost clock
    flops_per_s: Mapping[DType, float] = field(default_factory=dict)  # dense, per element type
    cache_bytes: float = 0.0  # the last one before memory
    watts: float = 0.0  # what the board may draw
    process_nm: float = 0.0
    link_bytes_per_s: float = 0.0  # to its neighbours in the host, one direction
    vendor: Vendor = Vendor.NVIDIA  # of a GPU
    source: str = ""
    unmeasured: str = ""  # what of it was never measured, where prices rest on its sheet alone
    reached: bool = False  # its rates are what kernels reached on it; no data sheet is known

    def __hash__(self) -> int:
        return hash(self.name)


@dataclass(frozen=True)
class Link:
    """Host and network, one cable. `background` is what others put on it, in each direction."""

    up_bytes_per_s: float
    down_bytes_per_s: float
    latency_ns: int = 0
    background_up_bytes_per_s: float = 0.0
    background_down_bytes_per_s: float = 0.0
    loss: float = 0.0  # share of packets that vanish at random
    buffer_bytes: int = 0  # queue at the sending side; 0 is the default of whoever builds it
    source: str = ""

    def __post_init__(self) -> None:
        for way, have, taken in (
            ("up", self.up_bytes_per_s, self.background_up_bytes_per_s),
            ("down", self.down_bytes_per_s, self.background_down_bytes_per_s),
        ):
            if have <= 0:
                raise ClusterError(f"a link's {way} rate is {have:g} bytes/s; give one above zero")
            if taken < 0 or taken >= have:
                raise ClusterError(
                    f"background load takes {taken:g} of a link's {have:g} bytes/s {way}; "
                    "leave some of it"
                )
        if not 0 <= self.loss < 1:
            raise ClusterError(f"a link's loss is {self.loss}; give a share from 0 to below 1")
        if self.latency_ns < 0:
            raise ClusterError(f"a link's latency is {self.latency_ns} ns; it cannot be negative")

    @staticmethod
    def both_ways(bytes_per_s: float, latency_ns: int = 0, source: str = "") -> "Link":
        return Link(bytes_per_s, bytes_per_s, latency_ns, source=source)

    @property
    def free_up_bytes_per_s(self) -> float:
        return self.up_bytes_per_s - self.background_up_bytes_per_s

    @property
    def free_down_bytes_per_s(self) -> float:
        return self.down_bytes_per_s - self.background_down_bytes_per_s


@dataclass(frozen=True)
class Host:
    """One machine. `cpus` is how many cores a worker's host may use (the lab's quota)."""

    name: str
    device: Device
    devices: int = 1
    fabric: Link | None = None  # each device's own link to the others of this host
    nics: int = 1
    link: Link | None = None  # where it differs from the cluster's
    cpus: float = 0.0  # 0: all there are

    def __post_init__(self) -> None:
        if self.devices < 1 or self.nics < 1:
            raise ClusterError(
                f"host {self.name} has {self.devices} devices and {self.nics} NICs; "
                "each must be 1 or more"
            )


@dataclass(frozen=True)
class Transport:
    """How bytes travel: the share of a link's rate that payload reaches, and TCP's settings."""

    efficiency: float = 1.0
    fabric_efficiency: float = 1.0  # the same inside a host
    congestion: str = "reno"
    gso_max_segs: int = 4

    def __post_init__(self) -> None:
        for name in ("efficiency", "fabric_efficiency"):
            if not 0 < getattr(self, name) <= 1:
                raise ClusterError(
                    f"transport.{name} is {getattr(self, name)}; give a share above 0 and up to 1"
                )


@dataclass(frozen=True)
class Cluster:
    """What training runs on."""

    hosts: tuple[Host, ...]
    link: Link
    topology: Topology = field(default_factory=Star)
    transport: Transport = field(default_factory=Transport)
    name: str = "cluster"
    switch: Switch | None = None  # None: its switches serve first come, first served

    def __post_init__(self) -> None:
        if not self.hosts:
            raise ClusterError(f"cluster {self.name} has no hosts; give at least one")
        names = [host.name for host in self.hosts]
        twice = sorted(
            {name for name in names if names.count(name) > 1} if len(names) < 500 else ()
        )
        if twice or len(set(names)) < len(names):
            raise ClusterError(f"hosts share a name: {', '.join(twice)}; names must differ")

    @cached_property
    def places(self) -> tuple[tuple[int, int], ...]:
        """(host, device on that host) of every worker this cluster has room for."""
        return tuple((h, d) for h, host in enumerate(self.hosts) for d in range(host.devices))

    @property
    def workers(self) -> int:
        """How many workers it has room for: one a device."""
        return len(self.places)

    def link_of(self, host: int) -> Link:
        return self.hosts[host].link or self.link

    @cached_property
    def ports(self) -> tuple[Port, ...]:
        """Every NIC of every host. Background load is taken off the rate."""
        return tuple(
            Port(h, nic, link.free_up_bytes_per_s, link.free_down_bytes_per_s, link.latency_ns)
            for h, host in enumerate(self.hosts)
            for link in (self.link_of(h),)
            for nic in range(host.nics)
        )

    def link_at(self, cable: Cable) -> Link | None:
        """The link of the first host at a cable's ends; None between two switches."""
        ends = [node for node in (cable.a, cable.b) if node < len(self.ports)]
        return self.link_of(self.ports[ends[0]].host) if ends else None

    def device_of(self, worker: int) -> Device:
        return self.hosts[self.place_of(worker)[0]].device

    def place_of(self, worker: int) -> tuple[int, int]:
        self.require(worker + 1)
        return self.places[worker]

    def require(self, workers: int) -> None:
        """Refuse more workers than there are devices."""
        if workers > self.workers:
            raise ClusterError(
                f"{workers} workers do not fit cluster {self.name}: it has {self.workers} devices "
                f"on {len(self.hosts)} hosts. Add hosts, or ask for fewer workers."
            )

    def with_workers(self, workers: int) -> "Cluster":
        """The same kind of cluster with room for so many: hosts are repeated, or left out."""
        if workers < 1:
            raise ClusterError(f"{workers} workers were asked for; give 1 or more")
        hosts: list[Host] = []
        room = 0
        while room < workers:
            kind = self.hosts[len(hosts) % len(self.hosts)]
            fresh = kind if len(hosts) < len(self.hosts) else replace(kind, name=f"h{len(hosts)}")
            hosts.append(replace(fresh, devices=min(fresh.devices, workers - room)))
            room += hosts[-1].devices
        return replace(self, hosts=tuple(hosts))
