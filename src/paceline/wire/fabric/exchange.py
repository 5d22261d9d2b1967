"""`exchange_ns`: how long hosts that send each other gradients over the transport take, packet by
packet. Prices of `bounded_loss` are these.

Wrong where hosts' links differ (the slowest is taken for all), where switches between them are the
bottleneck, where losses come in bursts, and where the processors that carry packets are busy.
"""

from dataclasses import dataclass, field
from functools import lru_cache
from itertools import permutations

from paceline.cluster import Switch
from paceline.wire.fabric.fabric import HEADER_BYTES, Fabric, Flow
from paceline.wire.fabric.policy import Policy, Routing, Transport
from paceline.wire.fabric.simulate import simulate
from paceline.wire.fabric.workloads import Tolerance
from paceline.wire.settings import OVERHEAD_BYTES, Tuning

MOST_PACKETS = 20_000
"""Of one simulation. A longer exchange goes on as the second half of so many did."""
_HOUR_NS = 3_600_000_000_000
_LEAST_HOP_NS = 10_000  # a cable and a switch, as the lab's namespaces have them


@dataclass(frozen=True)
class Links:
    """Every host's, to the one switch between them."""

    bits_per_s: int
    latency_ns: int = 0
    buffer_bytes: int = 256_000  # of each port
    loss: float = 0.0
    switch: Switch | None = None  # None: it serves first come, first served


@dataclass(frozen=True)
class EqualExchange:
    """Every member sends every other `share_bytes` at once. `members`: how many each host has."""

    members: tuple[int, ...]
    share_bytes: int
    tolerance: Tolerance = field(default_factory=Tolerance)


def exchange_ns(asked: EqualExchange, links: Links) -> int:
    """From the start until all have enough. Members of one host need no link."""
    bytes_each = _bytes_per_packet()
    packets = sum(_pairs(asked.members).values()) * -(-asked.share_bytes // bytes_each)
    if packets <= MOST_PACKETS:
        return _simulated_ns(asked, links)
    full = max(2, asked.share_bytes * MOST_PACKETS // packets // bytes_each) * bytes_each
    half = full // 2 // bytes_each * bytes_each
    far, near = (
        _simulated_ns(EqualExchange(asked.members, size, asked.tolerance), links)
        for size in (full, half)
    )
    return round(far + (far - near) * (asked.share_bytes - full) / (full - half))


@lru_cache(maxsize=4096)
def _simulated_ns(asked: EqualExchange, links: Links) -> int:
    fabric = _fabric(len(asked.members), links)
    flows = [
        Flow(
            src, dst, _carried_bytes(count * asked.share_bytes),
            loss_budget=min(asked.tolerance.loss_budget, 0.999),
            important=asked.tolerance.important,
        )
        for (src, dst), count in _pairs(asked.members).items()
    ]  # fmt: skip
    found = simulate(fabric, flows, _policy(fabric, links), until_ns=_HOUR_NS)
    return int(found.times_ns.max())


def _pairs(members: tuple[int, ...]) -> dict[tuple[int, int], int]:
    """Of two hosts, how many members send to how many."""
    return {(a, b): members[a] * members[b] for a, b in permutations(range(len(members)), 2)}


def _fabric(hosts: int, links: Links) -> Fabric:
    return Fabric(
        leaves=1,
        hosts_per_leaf=hosts,
        spines=0,
        host_bits_per_s=links.bits_per_s,
        spine_bits_per_s=links.bits_per_s,
        hop_ns=max(links.latency_ns, _LEAST_HOP_NS),
        buffer_bytes=links.buffer_bytes,
        packet_bytes=Tuning().packet_bytes + OVERHEAD_BYTES,
        loss=links.loss,
    )


def _policy(fabric: Fabric, links: Links) -> Policy:
    """The transport's: senders begin with their share of the receiver's link."""
    share = 1 / max(1, fabric.hosts - 1)
    switch = links.switch
    return Policy(
        Transport.BOUNDED,
        Routing.ECMP,
        mark_bytes=int(switch.mark * links.buffer_bytes) if switch else 0,
        drop_bytes=int(switch.drop * links.buffer_bytes) if switch else 0,
        rto_ns=max(round(1e6 * Tuning().patience.retry_ms), 2 * fabric.rtt_ns),
        first_rate=share,
        increase=share / 64,
        feedback_packets=4,
    )


def _bytes_per_packet() -> int:
    return Tuning().packet_bytes


def _carried_bytes(size_bytes: int) -> int:
    """What a flow of the simulator carries whose packets have our headers' size."""
    payload = Tuning().packet_bytes + OVERHEAD_BYTES - HEADER_BYTES
    return max(1, size_bytes * payload // Tuning().packet_bytes)
