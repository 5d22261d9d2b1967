"""What the lab tells the kernel of a cluster's switches, read without root."""

import json

import pytest

from paceline.cluster import Cluster, ClusterError, Device, Host, Link, Switch, parse
from paceline.lab import commands, plan
from paceline.lab.switching import rule
from paceline.wire.switch.kernel.attach import from_json


def cluster(switch: Switch | None) -> Cluster:
    link = Link.both_ways(12.5e6)
    return Cluster(tuple(Host(f"h{i}", Device("core")) for i in range(2)), link, switch=switch)


def test_only_nodes_without_workers_switch() -> None:
    layout = plan(cluster(Switch()), "a")
    texts = [commands.configure_node(layout, node).text for node in range(3)]
    assert ["clsact" in text for text in texts] == [False, False, True]
    assert texts[2].count("clsact") == 2


def test_without_a_switch_ports_serve_first_come_first_served() -> None:
    layout = plan(cluster(None), "a")
    assert "clsact" not in commands.configure_node(layout, 2).text


def test_classes_are_hexadecimal_and_strictly_ordered() -> None:
    lines = commands.shaping(plan(cluster(Switch()), "a"), 2)
    classes = [line for line in lines if "classid 1:1" in line and "dev eth0" in line]
    assert [line.split("classid ")[1].split()[0] for line in classes] == [
        "1:1",
        *(f"1:{number:x}" for number in range(0x10, 0x18)),
    ]
    assert [line.split("prio ")[1] for line in classes[1:]] == [str(p) for p in range(8)]


def test_what_is_loaded_is_what_the_cluster_file_says() -> None:
    made = parse(
        "{hosts: 2, link: {rate: 100Mbps, buffer: 64KB}, switch: {drop: 0.5, spray: true}}"
    )
    layout = plan(made, "a")
    text = commands.configure_node(layout, 2).text
    line = next(line for line in text.splitlines() if line.startswith("[{"))
    ports = from_json(line)
    assert [port.device for port in ports] == ["eth0", "eth1"]
    assert {port.rule for port in ports} == {rule(layout, layout.wires[0].b)}
    assert ports[0].rule.drop_bytes[0] == 32_000
    assert ports[0].rule.bits_per_s == 100_000_000
    assert all(port.spray for port in ports)
    assert len({port["name"] for port in json.loads(line)}) == 2


@pytest.mark.parametrize("given", ["{drop: 0}", "{mark: 2}", "{queues: 9}", "{spray: 1}"])
def test_a_switch_that_cannot_be_is_refused(given: str) -> None:
    with pytest.raises(ClusterError, match="switch"):
        parse(f"{{hosts: 2, link: ethernet-1g, switch: {given}}}")
