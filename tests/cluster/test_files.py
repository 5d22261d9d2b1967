"""Cluster files: read strictly, written in full, changed by dotted paths."""

from pathlib import Path

import pytest

from paceline.cluster import Cluster, ClusterError, dump, load, parse, with_settings
from paceline.cluster.presets import table
from paceline.graph import DeviceKind, DType
from paceline.graph.kinds import Vendor

OFFICE = """
name: office
hosts:
  - {name: a, device: epyc-2c, cpus: 1.5}
  - {name: b, count: 3, device: {preset: h100, memory: 94GB}, link: {rate: 10Gbps, latency: 5us}}
link: {preset: ethernet-1g, up: 500Mbps, background: 100Mbps, loss: 0.01, buffer: 300KB}
topology: {kind: leaf-spine, hosts_per_leaf: 2, spines: 2, oversubscription: 2.0}
transport: {efficiency: 0.957, congestion: reno}
"""


def test_a_cluster_file_says_what_it_says() -> None:
    office = parse(OFFICE)
    assert [host.name for host in office.hosts] == ["a", "b1", "b2", "b3"]
    assert office.link.up_bytes_per_s == 500e6 / 8
    assert office.link.free_down_bytes_per_s == 900e6 / 8
    assert office.link_of(1).up_bytes_per_s == 1.25e9
    assert office.hosts[1].device.memory_bytes == 94_000_000_000


@pytest.mark.parametrize(
    "text",
    [
        OFFICE,
        "{hosts: 3, link: infiniband-ndr, topology: ring}",
        "{hosts: {count: 4, devices: 2, fabric: nvlink-4}, link: ethernet-10g, topology: fat-tree}",
        "{hosts: 6, link: ethernet-10g, topology: {kind: torus, dims: [2, 3]}}",
        "{hosts: [{name: a}, {name: b}], link: ethernet-1g, topology: {kind: custom, cables: "
        "[{ends: [a, s], rate: 1Gbps}, {ends: [s, b], up: 2Gbps, down: 3Gbps, latency: 7us}]}}",
    ],
)
def test_what_is_written_is_read_back_equal(text: str) -> None:
    cluster = parse(text)
    assert parse(dump(cluster)) == cluster


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{hosts: 2, link: {rate: 0Gbps}}", "above zero"),
        ("{hosts: 2, link: {rate: 1Gb}}", "units"),
        ("{hosts: 2, link: carrier-pigeon}", "ethernet-1g"),
        ("{hosts: 2, lnk: ethernet-1g}", "allowed: name, hosts, link"),
        ("{hosts: 2}", "needs `hosts` and `link`"),
        ("{hosts: 0, link: ethernet-1g}", "no hosts"),
        ("{hosts: two, link: ethernet-1g}", "a host is 'two'"),
        ("{hosts: 2, link: {latency: 1us}}", "needs `rate`"),
        ("{hosts: 2, link: {rate: 1Gbps, background: 1Gbps}}", "leave some"),
        ("{hosts: 2, link: {rate: 1Gbps, loss: 1.0}}", "loss"),
        ("{hosts: [{name: a}, {name: a}], link: ethernet-1g}", "share a name: a"),
        ("{hosts: {count: 2, device: abacus}, link: ethernet-1g}", "known: v100"),
        ("{hosts: 2, link: ethernet-1g, topology: maze}", "known kinds: star, ring"),
        ("{hosts: 2, link: ethernet-1g, topology: {kind: star, spines: 2}}", "has 'spines'"),
        ("{hosts: 2, link: ethernet-1g, topology: {kind: leaf-spine, spines: 0}}", "above zero"),
        ("{hosts: 2, link: ethernet-1g, transport: {efficiency: 1.5}}", "efficiency is 1.5"),
        ("{hosts: 2, link: ethernet-1g, transport: {congestion: 7}}", "one like 'reno'"),
        ("{hosts: [", "not YAML"),
        ("7", "a cluster is 7"),
    ],
)
def test_bad_files_are_refused_with_what_to_do(text: str, message: str) -> None:
    with pytest.raises(ClusterError, match=message):
        parse(text)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ClusterError, match=r"none\.yaml"):
        load(tmp_path / "none.yaml")


def changed(*settings: str) -> Cluster:
    return with_settings(parse(OFFICE), list(settings))


def test_settings_change_one_thing_and_leave_the_original_alone() -> None:
    before = parse(OFFICE)
    after = with_settings(before, ["link.rate=100Gbps"])
    assert before == parse(OFFICE)
    assert (after.link.up_bytes_per_s, after.link.down_bytes_per_s) == (12.5e9, 12.5e9)
    assert after.hosts == before.hosts


def test_settings_reach_every_host_or_one() -> None:
    assert {h.device.name for h in changed("hosts.*.device=h200").hosts} == {"h200"}
    assert changed("hosts.0.device=v100").hosts[0].device.name == "v100"
    assert changed("topology.oversubscription=4.0").topology != parse(OFFICE).topology
    assert changed("link.rate=1Gbps", "link.up=2Gbps").link.up_bytes_per_s == 0.25e9


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("link.rate", "no `path=value`"),
        ("link.speed=1Gbps", "has 'speed'"),
        ("hosts.9.device=h100", "0 to 3"),
        ("nowhere.rate=1Gbps", "known: name, hosts"),
        ("name.x.y=1", "nothing below"),
        ("link.rate=1Gb", "units"),
    ],
)
def test_settings_that_lead_nowhere_are_refused(setting: str, message: str) -> None:
    with pytest.raises(ClusterError, match=message):
        changed(setting)


def test_every_preset_can_be_used_and_names_its_source() -> None:
    for name, fields in table("devices").items():
        device = parse(f"{{hosts: {{device: {name}}}, link: ethernet-1g}}").hosts[0].device
        assert device.name == name
        assert device.memory_bytes_per_s > 0
        assert device.flops_per_s.get(DType.FLOAT32, 0) > 0 or "float32" in device.unmeasured
        assert fields["source"]
    for kind, key in (("networks", "link"), ("fabrics", "fabric")):
        for name, fields in table(kind).items():
            text = {"link": name, "fabric": f"ethernet-1g, hosts: {{fabric: {name}}}"}[key]
            hosts = "hosts: 1, " if key == "link" else ""
            assert parse(f"{{{hosts}link: {text}}}").workers == 1
            assert fields["source"]


ACCELERATORS = ("gc200", "tpu-v4", "tpu-v5e", "gaudi-3", "trainium2")


@pytest.mark.parametrize("name", ACCELERATORS)
def test_an_accelerator_that_is_no_gpu_says_what_was_never_measured(name: str) -> None:
    cluster = parse(f"{{hosts: {{device: {name}}}, link: ethernet-1g}}")
    device = cluster.hosts[0].device
    assert device.vendor is Vendor.OTHER
    assert device.unmeasured.startswith("no kernel was timed on it")
    assert parse(dump(cluster)) == cluster
    assert parse(dump(cluster)).hosts[0].device.unmeasured == device.unmeasured


def test_presets_know_cpus_from_gpus() -> None:
    kinds = {name: fields["kind"] for name, fields in table("devices").items()}
    assert kinds["epyc-2c"] == DeviceKind.CPU.name.lower()
    assert kinds["h100"] == DeviceKind.GPU.name.lower()


def test_a_count_that_would_fill_the_memory_is_refused() -> None:
    with pytest.raises(ClusterError, match=r"hosts\.count is 3{40}; the most"):
        parse(f"hosts: {{count: {'3' * 40}, device: epyc-2c}}\nlink: {{preset: ethernet-1g}}\n")
