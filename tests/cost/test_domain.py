"""Collectives of NCCL within one host take what they took on such hosts."""

from dataclasses import replace

import pytest

from paceline.cluster import Cluster, parse
from paceline.cost import NCCL, Basis, Curve, Fidelity, Rates, prices
from paceline.cost.domain import words
from paceline.graph import Collective, Graph, GraphBuilder, OpKind
from paceline.predict import predict

MIB = 1 << 20
US = 1e3
PLAIN = replace(NCCL, name="nccl by its rounds")  # whose calls no table tells of


def hosts(system: str, count: int = 1, more: str = "") -> Cluster:
    return parse(f"{{hosts: {{count: {count}, system: {system}}}{more}}}")


def job(ranks: int, size: int, kind: Collective = Collective.ALL_REDUCE) -> Graph:
    b = GraphBuilder()
    group, instance = b.group("all", range(ranks)), b.instance()
    for rank in range(ranks):
        work = b.op("work", b.lane(rank=rank), 1000)
        b.op("sum", b.lane(rank=rank, name="talk"), 0, after=[work], kind=OpKind.COLLECTIVE,
             group=group, collective=kind, size_bytes=size, instance=instance)  # fmt: skip
    return b.build()


def took(
    cluster: Cluster, size: int, rates: Rates | None = None, *, ranks: int = 8,
    kind: Collective = Collective.ALL_REDUCE,
) -> tuple[float, Basis]:  # fmt: skip
    found = prices(job(ranks, size, kind), cluster, rates)
    return float(found.dur_ns[1]), Basis(found.basis[1])


@pytest.mark.parametrize(
    ("ranks", "size", "measured_us"),
    [(4, 64 * MIB, 544), (8, 64 * MIB, 580), (4, 1024 * MIB, 7259), (8, 1024 * MIB, 8193)],
)
def test_sums_within_a_dgx_a100_take_what_others_measured_on_one(
    ranks: int, size: int, measured_us: int
) -> None:  # vTrain's tables, from which nothing was fitted
    ns, basis = took(hosts("dgx-a100"), size, ranks=ranks)
    assert ns == pytest.approx(measured_us * US, rel=0.1)
    assert basis is Basis.FORECAST


@pytest.mark.parametrize(
    "kind", [Collective.ALL_GATHER, Collective.REDUCE_SCATTER, Collective.ALL_TO_ALL]
)
def test_more_bytes_take_longer_and_more_gpus_too(kind: Collective) -> None:
    cluster = hosts("dgx-h100")
    by_size = [took(cluster, size * MIB, kind=kind)[0] for size in (1, 16, 256)]
    assert by_size == sorted(by_size)
    assert took(cluster, 256 * MIB, ranks=2, kind=kind)[0] < by_size[-1]


def test_the_network_between_hosts_does_not_matter_within_one() -> None:
    slow = hosts("dgx-h100", 2, ", link: {rate: 1Gbps, latency: 1ms}")
    assert took(slow, MIB) == took(hosts("dgx-h100"), MIB)


@pytest.mark.parametrize("kind", [Collective.ALL_REDUCE, Collective.ALL_GATHER])
def test_between_hosts_nothing_changed(kind: Collective) -> None:
    cluster = hosts("dgx-h100", 2)
    mine, plain = (took(cluster, MIB, Rates(library=one), ranks=16, kind=kind)
                   for one in (None, PLAIN))  # fmt: skip
    assert mine == plain


@pytest.mark.parametrize(
    "text",
    [
        "{hosts: {count: 1, devices: 8, device: v100, fabric: nvlink-2}, link: ethernet-1g}",
        "{hosts: {count: 1, devices: 8, device: h100, fabric: pcie-5}, link: ethernet-1g}",
        "{hosts: {count: 1, devices: 8, device: mi300x, fabric: infinity-fabric-4}, "
        "link: ethernet-1g}",
        "{hosts: {count: 1, devices: 8, device: l40s, fabric: pcie-5}, link: ethernet-1g}",
        "{hosts: {count: 1, system: dgx-h100}, transport: {fabric_efficiency: 0.7}}",
    ],
    ids=["no device like it", "another fabric", "another vendor", "PCIe", "calibrated"],
)
def test_hosts_of_which_no_table_tells_go_by_rounds(text: str) -> None:
    cluster = parse(text)
    assert took(cluster, MIB) == took(cluster, MIB, Rates(library=PLAIN))


def test_a_message_and_a_broadcast_go_by_rounds() -> None:
    cluster = hosts("dgx-h100")
    assert took(cluster, MIB, kind=Collective.BROADCAST)[1] is Basis.DATASHEET
    assert took(cluster, MIB, kind=Collective.POINT_TO_POINT, ranks=2)[1] is Basis.DATASHEET


def test_what_was_measured_here_wins() -> None:
    table = {(Collective.ALL_REDUCE, 8): Curve.through([1.0, 1e9], [5e6, 5e6])}
    assert took(hosts("dgx-h100"), MIB, Rates(calls=table)) == (5e6, Basis.MEASURED)
    fitted = replace(NCCL, call_ns=700_000, basis=Basis.FITTED)
    ns, basis = took(hosts("dgx-h100"), MIB, Rates(library=fitted))
    assert ns > 700 * US
    assert basis is Basis.FITTED


def test_messages_that_share_links_are_not_forecast() -> None:
    assert took(hosts("dgx-h100"), MIB, Rates(fidelity=Fidelity.FLOWS))[1] is Basis.DATASHEET


def test_a_prediction_says_what_collectives_within_a_host_rest_on() -> None:
    made = predict(job(8, MIB), (), hosts("dgx-a100"))
    told = "\n".join(made.rests_on)
    assert words(hosts("dgx-a100").hosts[0]) in told
    assert "us a call" not in told
    across = predict(job(16, MIB), (), hosts("dgx-a100", 2))
    assert "nccl takes 10 us a call" in "\n".join(across.rests_on)


def test_the_librarys_own_times_are_said_of_the_calls_that_they_price() -> None:
    b = GraphBuilder()
    group = b.group("all", range(8))
    for kind in (Collective.ALL_REDUCE, Collective.BROADCAST):
        instance = b.instance()
        for rank in range(8):
            b.op("talk", b.lane(rank=rank), 0, kind=OpKind.COLLECTIVE, group=group,
                 collective=kind, size_bytes=MIB, instance=instance)  # fmt: skip
    told = "\n".join(predict(b.build(), (), hosts("dgx-a100")).rests_on)
    assert "nccl takes 10 us a call" in told
    assert "(an estimate of its order), for broadcast" in told


def test_a_recording_replayed_as_it_is_keeps_its_times() -> None:
    graph = job(8, MIB)
    graph = replace(graph, ops=replace(graph.ops, dur_ns=graph.ops.dur_ns + 77_000))
    assert predict(graph).step_ns == 1000 + 2 * 77_000


def test_devices_like_a_measured_one_say_a_wider_interval() -> None:
    known, like = (hosts(name).hosts[0] for name in ("dgx-h100", "dgx-b300"))
    assert "measured on h100, off by 4%" in words(known)
    assert "measured on devices like b300, off by 25%" in words(like)


def test_a_device_on_the_links_of_another_is_one_that_nobody_measured() -> None:
    on_older = parse("{hosts: {count: 1, system: dgx-a100, device: h100}}")
    older, newer = (hosts(name) for name in ("dgx-a100", "dgx-h100"))
    assert "devices like h100 on links of 300 GB/s" in words(on_older.hosts[0])
    least, ns, most = (took(one, 256 * MIB)[0] for one in (newer, on_older, older))
    assert least < ns < 1.2 * most
