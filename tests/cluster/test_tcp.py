"""TCP on shaped links: its share of a rate, ports, queues and bursts."""

import pytest

from paceline.cluster import Cluster, Device, Host, LeafSpine, Link, Ring
from paceline.cluster.tcp import (
    DEFAULT_QUEUE_BYTES,
    FRAME_BYTES,
    burst_bytes,
    least_queue_bytes,
    over_tcp,
    queue_bytes,
    tcp_share,
)

SHORT, LONG = Link(1e8, 1e8, buffer_bytes=9_000), Link(1e8, 1e8, buffer_bytes=900_000)


def hosts(*links: Link) -> tuple[Host, ...]:
    return tuple(Host(f"h{i}", Device("core"), link=link) for i, link in enumerate(links))


def test_every_nic_of_a_host_is_a_port_with_its_link_less_what_others_take() -> None:
    link = Link(10.0, 8.0, 5, background_up_bytes_per_s=1.0)
    made = Cluster((Host("a", Device("core"), devices=2, nics=2), Host("b", Device("core"))), link)
    assert [(port.host, port.nic) for port in made.ports] == [(0, 0), (0, 1), (1, 0)]
    assert {(port.up_bytes_per_s, port.down_bytes_per_s) for port in made.ports} == {(9.0, 8.0)}


def test_a_cable_between_switches_has_no_hosts_link_and_a_usual_queue() -> None:
    made = Cluster(hosts(LONG, LONG, LONG, LONG), LONG, LeafSpine(hosts_per_leaf=2, spines=1))
    links = [made.link_at(cable) for cable in made.topology.cables(made.ports)]
    assert set(links) == {LONG, None}
    assert queue_bytes(None) == DEFAULT_QUEUE_BYTES == least_queue_bytes(made)


def test_the_shortest_queue_is_that_of_any_host() -> None:
    assert least_queue_bytes(Cluster(hosts(LONG, SHORT, LONG), LONG)) == 9_000
    assert least_queue_bytes(Cluster(hosts(LONG, LONG, LONG), LONG, Ring())) == 900_000


def test_a_burst_is_a_millisecond_and_at_least_two_units_of_segments() -> None:
    assert burst_bytes(8e9, 4) == 1_000_000
    assert burst_bytes(8e3, 4) == 2 * 4 * FRAME_BYTES


def test_tcps_share_is_payload_over_frames_and_acknowledgements() -> None:
    assert tcp_share(4) == pytest.approx(1448 / 1530.5)
    assert tcp_share(1) < tcp_share(4) < 1448 / 1514


def test_a_cluster_that_gives_no_efficiency_gets_tcps_and_keeps_what_it_gives() -> None:
    hosts = tuple(Host(f"h{i}", Device("core")) for i in range(2))
    found = over_tcp(Cluster(hosts, Link.both_ways(1e9)))
    assert found.transport.efficiency == tcp_share(found.transport.gso_max_segs)
    assert over_tcp(found) is found
