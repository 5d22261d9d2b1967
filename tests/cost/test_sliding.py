"""Prices that are slid equal prices for the cluster whose links are so."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paceline.cluster import Cluster, Link, parse
from paceline.cluster.machine import Machine
from paceline.cost import Rates, calls_of, prices
from paceline.cost.collectives import gloo_on
from paceline.cost.sliding import Piece, envelope, slidable
from paceline.graph import Collective, Graph, GraphBuilder, OpKind

CLUSTERS = (
    "{hosts: 4, link: {rate: 8Gbps, latency: 30us}}",
    "{hosts: {count: 4, device: v100, devices: 2, fabric: {rate: 100Gbps, latency: 2us}}, "
    "link: {rate: 10Gbps, latency: 5us}}",
    "{hosts: {count: 1, system: dgx-h100}, link: {rate: 10Gbps, latency: 5us}}",
    "{hosts: {count: 2, system: dgx-a100}, link: {rate: 10Gbps, latency: 5us}}",
)


def job(ranks: int, sizes: list[int], kind: Collective) -> Graph:
    b = GraphBuilder()
    group = b.group("all", range(ranks))
    lanes = [b.lane(rank=rank) for rank in range(ranks)]
    for size in sizes:
        instance = b.instance()
        for lane in lanes:
            b.op("sum", lane, 0, kind=OpKind.COLLECTIVE, group=group, collective=kind,
                 size_bytes=size, instance=instance)  # fmt: skip
    return b.build()


def with_links(cluster: Cluster, latency: float, rate: float) -> Cluster:
    def other(link: Link) -> Link:
        rates = (link.up_bytes_per_s * rate, link.down_bytes_per_s * rate)
        return replace(link, up_bytes_per_s=rates[0], down_bytes_per_s=rates[1],
                       latency_ns=round(link.latency_ns * latency))  # fmt: skip

    hosts = tuple(replace(host, link=host.link and other(host.link)) for host in cluster.hosts)
    return replace(cluster, link=other(cluster.link), hosts=hosts)


@settings(deadline=None, max_examples=60)
@given(
    st.sampled_from(CLUSTERS),
    st.sampled_from([Collective.ALL_REDUCE, Collective.ALL_GATHER, Collective.BROADCAST]),
    st.lists(st.integers(1, 2**27), min_size=1, max_size=3, unique=True),
    st.sampled_from([0.0, 0.5, 1.0, 3.0, 20.0]),
    st.sampled_from([0.05, 0.5, 1.0, 2.0, 40.0]),
)
def test_slid_prices_are_those_of_other_links(
    text: str, kind: Collective, sizes: list[int], latency: float, rate: float
) -> None:
    cluster = parse(text)
    graph, rates = job(cluster.workers, sizes, kind), Rates()
    calls = calls_of(graph, cluster, rates.library_of(cluster))
    exact = prices(graph, with_links(cluster, latency, rate)).dur_ns
    found = slidable(graph, cluster, rates, calls)
    for row, which in zip(calls.rows.tolist(), calls.which.tolist()):
        assert found[which].ns(latency, rate) == pytest.approx(exact[row], abs=0.51, rel=1e-12)


@pytest.mark.parametrize("rate", [0.05, 0.5, 1.0, 2.0, 40.0])
def test_prices_slide_with_the_rate_down_to_what_a_round_takes_at_least(rate: float) -> None:
    cluster = parse("{hosts: 4, link: {rate: 1Gbps, latency: 5us}}")
    library = replace(gloo_on(Machine(2.0)), stall_ns=400_000.0)
    graph, rates = job(4, [100, 1_000_000], Collective.ALL_REDUCE), Rates(library=library)
    calls = calls_of(graph, cluster, library)
    exact = prices(graph, with_links(cluster, 1.0, rate), rates).dur_ns
    found = slidable(graph, cluster, rates, calls)
    for row, which in zip(calls.rows.tolist(), calls.which.tolist()):
        assert found[which].ns(1.0, rate) == pytest.approx(exact[row], abs=0.51, rel=1e-12)


def test_the_slowest_of_lines_changes_where_they_cross() -> None:
    # 5 until 5 = 2x, at 2.5; then 2x until 2x = 4x - 8, at 4
    assert envelope([(5.0, 0.0), (0.0, 2.0), (-8.0, 4.0), (1.0, 0.0)]) == (
        Piece(0.0, 5.0, 0.0),
        Piece(2.5, 5.0, 2.0),
        Piece(4.0, 8.0, 4.0),
    )
