"""`Fabric`: hosts, leaves, spines and the ports between them. `Flow`: what one host sends another.

Ports are numbered: every host's NIC, every leaf's port to each of its hosts, every leaf's port to
each spine, every spine's port to each leaf. Each has a queue of its own and sends one packet at a
time. A fabric of one leaf and no spine is a star.
"""

from dataclasses import dataclass

from paceline.wire.errors import WireError

HEADER_BYTES = 40
CONTROL_BYTES = 64  # acknowledgements, probes and their answers


@dataclass(frozen=True)
class Fabric:
    """Leaves with equal numbers of hosts, and spines that join the leaves."""

    leaves: int = 9
    hosts_per_leaf: int = 16
    spines: int = 4
    host_bits_per_s: int = 100 * 10**9
    spine_bits_per_s: int = 400 * 10**9
    hop_ns: int = 1_000  # cable and switch, per hop
    buffer_bytes: int = 256_000  # of each port of a switch
    shared_bytes: int = 0  # of a whole switch, in place of each port's own
    packet_bytes: int = 1_500
    loss: float = 0.0  # share of packets that each cable loses at random

    def __post_init__(self) -> None:
        counts = (self.leaves, self.hosts_per_leaf, self.host_bits_per_s, self.spine_bits_per_s)
        if min(counts) < 1 or self.spines < 0 or self.hop_ns < 0:
            raise WireError(f"{self} has no hosts, no rate or a negative delay")
        if self.leaves > 1 and not self.spines:
            raise WireError(f"{self.leaves} leaves need a spine; give spines=1 or more")
        if not HEADER_BYTES < self.packet_bytes <= 65_535:
            raise WireError(
                f"packets of {self.packet_bytes} bytes; give {HEADER_BYTES + 1} to 65535"
            )
        if not 0 <= self.loss < 1:
            raise WireError(f"a loss of {self.loss}; give a share from 0 to below 1")
        if min(self.buffer_bytes, self.shared_bytes or self.buffer_bytes) < self.packet_bytes:
            raise WireError(
                f"a buffer of {self.shared_bytes or self.buffer_bytes} bytes holds no packet of "
                f"{self.packet_bytes}; give a larger buffer or smaller packets"
            )

    @property
    def hosts(self) -> int:
        return self.leaves * self.hosts_per_leaf

    @property
    def ports(self) -> int:
        return 2 * self.hosts + 2 * self.leaves * self.spines

    @property
    def payload_bytes(self) -> int:
        return self.packet_bytes - HEADER_BYTES

    @property
    def rtt_ns(self) -> int:
        """A full packet to the furthest host and its answer back, with no one else there."""
        hops = 4 if self.spines else 2
        return 2 * hops * self.hop_ns + hops * (
            self.sending_ns(self.packet_bytes, 0) + self.sending_ns(CONTROL_BYTES, 0)
        )

    def leaf_of(self, host: int) -> int:
        return host // self.hosts_per_leaf

    def path(self, src: int, dst: int, spine: int) -> tuple[int, ...]:
        """The ports that a packet leaves through, from NIC to the last leaf's."""
        here, there = self.leaf_of(src), self.leaf_of(dst)
        down = self.hosts + dst
        if here == there:
            return (src, down)
        up = 2 * self.hosts + here * self.spines + spine
        across = 2 * self.hosts + self.leaves * self.spines + spine * self.leaves + there
        return (src, up, across, down)

    def switch_of(self, port: int) -> int:
        """The leaf or spine (counted after the leaves) that owns a port; -1 for a host's NIC."""
        if port < self.hosts:
            return -1
        if port < 2 * self.hosts:
            return self.leaf_of(port - self.hosts)
        between = port - 2 * self.hosts
        if between < self.leaves * self.spines:
            return between // self.spines
        return self.leaves + (between - self.leaves * self.spines) // self.leaves

    def sending_ns(self, size_bytes: int, port: int) -> int:
        """How long a port takes to put so many bytes on its cable, rounded half up."""
        rate = self.host_bits_per_s if port < 2 * self.hosts else self.spine_bits_per_s
        return (size_bytes * 8_000_000_000 + rate // 2) // rate


@dataclass(frozen=True)
class Flow:
    """One message. `loss_budget` and `important` matter to a bounded-loss transport alone."""

    src: int
    dst: int
    size_bytes: int
    start_ns: int = 0
    priority: int = 0  # 0 is served first
    loss_budget: float = 0.0  # share of its packets that it may do without
    important: float = 1.0  # share of its packets that are marked rather than dropped

    def __post_init__(self) -> None:
        if self.src == self.dst or min(self.src, self.dst) < 0:
            raise WireError(f"a flow from host {self.src} to host {self.dst}: give two hosts")
        if self.size_bytes < 1 or self.start_ns < 0:
            raise WireError(f"{self} is empty or starts before time 0")
        if not 0 <= self.priority < PRIORITIES:
            raise WireError(f"priority {self.priority}; give 0 to {PRIORITIES - 1}")
        if not (0 <= self.loss_budget < 1 and 0 <= self.important <= 1):
            raise WireError(
                f"loss_budget={self.loss_budget}, important={self.important}; give shares, "
                "the budget below 1"
            )


PRIORITIES = 8
