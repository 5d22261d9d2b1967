"""TCP's share of a link: what reaches the payload of a rate that counts whole frames."""

from dataclasses import replace

from paceline.cluster.cluster import Cluster

SEGMENT_BYTES, FRAME_BYTES, ACK_BYTES = 1448, 1514, 66


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
