"""What the lab would build, read without root."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paceline.cluster import (
    Cluster,
    Custom,
    Device,
    Host,
    LeafSpine,
    Link,
    Ring,
    Topology,
    Transport,
)
from paceline.graph import DeviceKind
from paceline.lab import End, LabError, Layout, Node, Stack, Wire, commands, plan

CORE = Device("core")


def cluster(hosts: int, link: Link, topology: Topology | None = None) -> Cluster:
    made = Cluster(tuple(Host(f"h{i}", CORE) for i in range(hosts)), link)
    return replace(made, topology=topology) if topology else made


def lines(layout: Layout, node: int) -> list[str]:
    return commands.configure_node(layout, node).text.splitlines()


def test_a_star_of_two_hosts_is_three_namespaces_and_two_wires() -> None:
    layout = plan(cluster(2, Link.both_ways(125e6)), "office")
    assert commands.setup(layout).text.splitlines()[2:-1] == [
        "netns add paceline.office.h0",
        "netns add paceline.office.h1",
        "netns add paceline.office.switch-0",
        "link add eth0 netns paceline.office.h0 type veth "
        "peer name eth0 netns paceline.office.switch-0",
        "link add eth0 netns paceline.office.h1 type veth "
        "peer name eth1 netns paceline.office.switch-0",
    ]


def test_up_is_shaped_at_the_host_and_down_at_the_switch() -> None:
    layout = plan(cluster(2, Link(up_bytes_per_s=12.5e6, down_bytes_per_s=125e6)), "a")
    assert any("rate 100000000bit" in line for line in lines(layout, 0))
    assert sum("rate 1000000000bit" in line for line in lines(layout, 2)) == 2
    assert not any("rate 1000000000bit" in line for line in lines(layout, 0))


def test_background_load_is_taken_off_the_rate_and_said() -> None:
    link = Link(125e6, 125e6, background_up_bytes_per_s=25e6)
    layout = plan(cluster(2, link), "a")
    assert layout.wires[0].a.bits_per_s == 800_000_000
    assert layout.wires[0].b.bits_per_s == 1_000_000_000
    assert any("background" in limit for limit in layout.limits)


def test_congestion_control_and_segments_are_those_of_the_cluster() -> None:
    made = replace(
        cluster(2, Link.both_ways(1e6)), transport=Transport(congestion="cubic", gso_max_segs=2)
    )
    text = commands.configure_node(plan(made, "a"), 0).text
    assert "echo cubic > /proc/sys/net/ipv4/tcp_congestion_control" in text
    assert "gso_max_segs 2 gso_max_size 3028" in text


def test_hosts_of_a_ring_pass_on_what_is_not_theirs() -> None:
    layout = plan(cluster(4, Link.both_ways(1e6), Ring()), "a")
    assert len(layout.nodes) == 4
    across = [line for line in lines(layout, 0) if line.startswith("route add 10.77.0.3/32")]
    assert across[0].count("nexthop") == 2  # both ways round are equally long


def test_a_leaf_spine_spreads_over_its_spines_and_shares_the_oversubscribed_rate() -> None:
    layout = plan(cluster(4, Link.both_ways(125e6), LeafSpine(2, 2, 2.0)), "a")
    assert [node.name for node in layout.nodes[4:]] == [f"switch-{i}" for i in range(4)]
    trunks = [wire.a.bits_per_s for wire in layout.wires if wire.a.node >= 4]
    assert trunks == [500_000_000] * 4
    leaf = [line for line in lines(layout, 4) if line.startswith("route add 10.77.0.4/32")]
    assert leaf[0].count("nexthop") == 2


def test_loss_is_a_rule_where_packets_arrive_and_needs_nothing_when_there_is_none() -> None:
    lossy = plan(cluster(2, Link(1e6, 1e6, loss=0.015)), "a")
    text = commands.configure_node(lossy, 0).text
    assert 'iifname "eth0" numgen random mod 1000000 < 15000 counter drop' in text
    clean = plan(cluster(2, Link.both_ways(1e6)), "a")
    assert "nft" not in commands.configure_node(clean, 0).text


def test_workers_fill_hosts_in_order() -> None:
    hosts = (Host("big", CORE, devices=2), Host("small", CORE, cpus=0.5))
    layout = plan(Cluster(hosts, Link.both_ways(1e6)), "a")
    assert layout.places == (0, 0, 1)
    assert layout.nodes[1].cpus == 0.5


def test_what_the_lab_cannot_do_is_said() -> None:
    gpu = Device("gpu", kind=DeviceKind.GPU)
    hosts = (Host("a", gpu, devices=2), Host("b", gpu))
    layout = plan(Cluster(hosts, Link.both_ways(1e6, latency_ns=50_000)), "a")
    said = " ".join(layout.limits)
    assert "50 us" in said
    assert "loopback" in said
    assert "CPU cores" in said
    assert plan(cluster(2, Link.both_ways(1e6)), "a").limits == ()


def test_a_pair_without_a_way_is_refused_by_name() -> None:
    apart = Custom(edges=((0, 1, 1e6, 1e6, 0),))
    with pytest.raises(LabError, match="h2 cannot be reached from h0"):
        plan(cluster(3, Link.both_ways(1e6), apart), "a")


@pytest.mark.parametrize("name", ["", "a.b", "a b", "-a", "x" * 33, "../etc"])
def test_a_name_that_could_reach_beyond_the_lab_is_refused(name: str) -> None:
    with pytest.raises(LabError, match="letters, digits"):
        Layout(name, (Node("a", 1),), ())


def test_a_rate_that_cannot_be_shaped_is_refused() -> None:
    with pytest.raises(LabError, match="bit/s"):
        End(0, 100)


def test_a_lab_without_workers_is_refused() -> None:
    with pytest.raises(LabError, match="no workers"):
        Layout("a", (Node("switch"),), ())


@settings(deadline=None, max_examples=40)
@given(
    hosts=st.integers(1, 7),
    extra=st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), max_size=8),
)
def test_every_node_has_a_route_to_every_other_in_any_connected_layout(
    hosts: int, extra: list[tuple[int, int]]
) -> None:
    chain = [(i, i + 1) for i in range(hosts - 1)]
    pairs = {tuple(sorted(p)) for p in extra if p[0] != p[1] and max(p) < hosts} | set(chain)
    wires = tuple(Wire(End(a, 10**6), End(b, 10**6)) for a, b in sorted(pairs))
    layout = Layout("a", tuple(Node(f"n{i}", 1) for i in range(hosts)), wires, Stack())
    for node in range(hosts):
        targets = {r.split()[2] for r in commands.routes(layout, node)}
        wanted = {f"{layout.address(n)}/32" for n in range(hosts) if n != node}
        assert targets == wanted
