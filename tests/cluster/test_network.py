"""Links and routes of each topology, on clusters small enough to draw."""

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paceline.cluster import ClusterError, Network, parse


def network(topology: str, hosts: int = 4, more: str = "") -> Network:
    return Network(parse(f"{{hosts: {hosts}, link: {{rate: 8Gbps}}, topology: {topology}{more}}}"))


def names(net: Network, src: int, dst: int) -> list[str]:
    return [net.links[link].name for link in net.path(src, dst)]


def test_a_star_has_one_hop_up_and_one_down() -> None:
    assert names(network("star"), 0, 2) == ["h0 -> switch 0", "switch 0 -> h2"]


def test_a_ring_goes_the_short_way_round() -> None:
    assert names(network("ring", 5), 0, 4) == ["h0 -> h4"]
    assert names(network("ring", 5), 0, 2) == ["h0 -> h1", "h1 -> h2"]


def test_a_full_mesh_has_a_cable_for_each_pair() -> None:
    mesh = network("full-mesh")
    assert names(mesh, 3, 1) == ["h3 -> h1"]
    assert len(mesh.links) == 12


def test_leaf_and_spine_share_the_uplink_by_their_oversubscription() -> None:
    net = network("{kind: leaf-spine, hosts_per_leaf: 2, oversubscription: 4.0}")
    path = net.path(0, 3)
    assert [net.links[link].name for link in path] == [
        "h0 -> switch 0",
        "switch 0 -> switch 2",
        "switch 2 -> switch 1",
        "switch 1 -> h3",
    ]
    assert [net.bytes_per_s[link] for link in path] == [1e9, 0.5e9, 0.5e9, 1e9]
    assert len(net.path(0, 1)) == 2


def test_a_fat_tree_of_four_port_switches_holds_sixteen_hosts() -> None:
    net = network("fat-tree", 16)
    assert [len(net.path(0, dst)) for dst in (1, 2, 4)] == [2, 4, 6]
    with pytest.raises(ClusterError, match="16 ports"):
        network("{kind: fat-tree, k: 4}", 17).path(0, 1)


def test_a_torus_wraps_in_each_dimension() -> None:
    net = network("{kind: torus, dims: [4, 4]}", 16)
    assert len(net.path(0, 3)) == 1
    assert len(net.path(0, 10)) == 4
    with pytest.raises(ClusterError, match="product is 4"):
        network("{kind: torus, dims: [3, 2]}").path(0, 1)


def test_rails_keep_equal_devices_on_one_switch() -> None:
    net = Network(
        parse(
            "{hosts: {count: 2, devices: 2, nics: 2, fabric: nvlink-3}, link: {rate: 8Gbps}, "
            "topology: rail}"
        )
    )
    assert names(net, 0, 2) == ["h0:0 -> switch 0", "switch 0 -> h1:0"]
    assert len(net.path(0, 3)) == 4
    assert names(net, 0, 1) == ["h0.0 out", "h0.1 in"]


def test_up_and_down_rates_background_and_efficiency_are_told_apart() -> None:
    net = Network(
        parse(
            "{hosts: 2, link: {up: 8Gbps, down: 16Gbps, background_up: 4Gbps, latency: 3us}, "
            "transport: {efficiency: 0.5}}"
        )
    )
    assert [net.bytes_per_s[link] for link in net.path(0, 1)] == [0.25e9, 1e9]
    assert net.path_latency_ns(0, 1) == 6000


def test_an_unreachable_pair_is_named() -> None:
    text = (
        "{hosts: [{name: a}, {name: b}, {name: c}], link: ethernet-1g, topology: "
        "{kind: custom, cables: [{ends: [a, b], rate: 1Gbps}]}}"
    )
    net = Network(parse(text))
    assert names(net, 0, 1) == ["a -> b"]
    with pytest.raises(ClusterError, match="a cannot reach c"):
        net.check()


def test_more_workers_than_devices_and_hosts_without_fabric_are_refused() -> None:
    cluster = parse("{hosts: {count: 2, devices: 2}, link: ethernet-1g}")
    with pytest.raises(ClusterError, match="5 workers do not fit"):
        cluster.require(5)
    with pytest.raises(ClusterError, match="no fabric"):
        Network(cluster).path(0, 1)


def test_a_cluster_grows_and_shrinks_to_a_number_of_workers() -> None:
    cluster = parse("{hosts: {count: 2, devices: 4, fabric: nvlink-3}, link: ethernet-1g}")
    assert [cluster.with_workers(n).workers for n in (1, 6, 64)] == [1, 6, 64]
    assert len(cluster.with_workers(64).hosts) == 16
    with pytest.raises(ClusterError, match="0 workers"):
        cluster.with_workers(0)


TOPOLOGIES = (
    "star",
    "ring",
    "full-mesh",
    "{kind: leaf-spine, hosts_per_leaf: 3, spines: 2}",
    "fat-tree",
    "rail",
)


@settings(deadline=None, max_examples=40)
@given(st.sampled_from(TOPOLOGIES), st.integers(2, 12), st.data())
def test_paths_are_unbroken_and_as_long_back_as_forth(
    topology: str, hosts: int, data: st.DataObject
) -> None:
    net = network(topology, hosts)
    src, dst = data.draw(st.lists(st.integers(0, hosts - 1), min_size=2, max_size=2, unique=True))
    path = [name.split(" -> ") for name in names(net, src, dst)]
    assert path[0][0] == f"h{src}"
    assert path[-1][1] == f"h{dst}"
    assert all(here[1] == there[0] for here, there in pairwise(path))
    assert len(net.path(dst, src)) == len(path)
