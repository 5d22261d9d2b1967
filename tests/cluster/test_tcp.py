"""What of a link's rate TCP leaves to the payload."""

import pytest

from paceline.cluster import Cluster, Device, Host, Link
from paceline.cluster.tcp import over_tcp, tcp_share


def test_tcps_share_is_payload_over_frames_and_acknowledgements() -> None:
    assert tcp_share(4) == pytest.approx(1448 / 1530.5)
    assert tcp_share(1) < tcp_share(4) < 1448 / 1514


def test_a_cluster_that_gives_no_efficiency_gets_tcps_and_keeps_what_it_gives() -> None:
    hosts = tuple(Host(f"h{i}", Device("core")) for i in range(2))
    found = over_tcp(Cluster(hosts, Link.both_ways(1e9)))
    assert found.transport.efficiency == tcp_share(found.transport.gso_max_segs)
    assert over_tcp(found) is found
