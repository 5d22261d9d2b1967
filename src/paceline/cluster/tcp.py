"""TCP over shaped links: what of a rate reaches the payload, what a link passes at once, and what
waits in its queue. The lab shapes links so, and predictions for it rest on the same figures."""

from dataclasses import replace

from paceline.cluster.cluster import Cluster, Link

SEGMENT_BYTES, FRAME_BYTES, ACK_BYTES = 1448, 1514, 66
"""Payload, with the Ethernet header as the kernel counts it against the rate, and without data."""

DEFAULT_QUEUE_BYTES = 300_000
BURST_S = 0.001
"""A link may send a millisecond's worth at once; less makes the kernel's timers cut the rate."""


def tcp_share(gso_max_segs: int) -> float:
    """Share of a link's rate that reaches the payload when data flows both ways: each unit of
    `gso_max_segs` frames is answered by one acknowledgement against the other direction's data."""
    return SEGMENT_BYTES / (FRAME_BYTES + ACK_BYTES / gso_max_segs)


def over_tcp(cluster: Cluster) -> Cluster:
    """With TCP's share of each rate, where the cluster file does not give one."""
    transport = cluster.transport
    if transport.efficiency != 1.0:
        return cluster
    share = tcp_share(transport.gso_max_segs)
    return replace(cluster, transport=replace(transport, efficiency=share))


def burst_bytes(bits_per_s: float, gso_max_segs: int) -> int:
    """What a link passes at once after a rest, frames counted whole."""
    return max(2 * FRAME_BYTES * gso_max_segs, int(bits_per_s / 8 * BURST_S))


def queue_bytes(link: Link | None) -> int:
    """The queue at each end of a cable of this link, or of one between two switches (None)."""
    return link.buffer_bytes if link and link.buffer_bytes else DEFAULT_QUEUE_BYTES


def least_queue_bytes(cluster: Cluster) -> int:
    """The shortest queue of any cable."""
    cables = cluster.topology.cables(cluster.ports)
    return min(queue_bytes(cluster.link_at(cable)) for cable in cables)
