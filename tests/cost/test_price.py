"""Pricing a graph: unpriced ops, communication on a cluster, intervals, and what is refused."""

from dataclasses import replace

import numpy as np
import pytest

from paceline.cluster import ClusterError, Network, parse
from paceline.cost import (
    SPREAD,
    Basis,
    CostError,
    Curve,
    Efficiency,
    Fidelity,
    Library,
    Rates,
    price,
    prices,
)
from paceline.graph import (
    Collective,
    DType,
    Graph,
    GraphBuilder,
    OpKind,
)
from paceline.graph.kinds import UNPRICED

PAIR = parse("{hosts: {count: 2, device: a100-80}, link: {rate: 8Gbps}}")
BARE = Rates(
    {"a100-80": Efficiency(1.0, 1.0, 0.0, 700.0)},
    Library("bare", {Collective.ALL_REDUCE: "ring", Collective.POINT_TO_POINT: "point-to-point"}),
)


def drawn(**work: int) -> Graph:
    """Two ranks: a kernel, then an all-reduce of 8 MB."""
    b = GraphBuilder()
    group, instance = b.group("data", (0, 1)), b.instance()
    for rank in (0, 1):
        lane = b.lane(rank=rank)
        b.op("launch", lane, UNPRICED, kind=OpKind.HOST)
        kernel = b.op("kernel", lane, UNPRICED, dtype=DType.FLOAT16, **work)
        b.op("recorded", lane, 1234)
        b.op(
            "sum", b.lane(rank=rank, name="comm"), 99, after=[kernel], kind=OpKind.COLLECTIVE,
            collective=Collective.ALL_REDUCE, size_bytes=8_000_000, group=group, instance=instance,
        )  # fmt: skip
        b.op("end", lane, UNPRICED, kind=OpKind.MARKER)
    return b.build()


def test_waiting_for_a_core_has_no_price_elsewhere() -> None:
    b = GraphBuilder()
    lane = b.lane(rank=0)
    b.op("waiting", lane, UNPRICED, kind=OpKind.CORE_WAIT)
    assert price(b.build(), PAIR, BARE).ops.dur_ns.tolist() == [0]


def test_each_kind_of_op_gets_its_price() -> None:
    found = price(drawn(flops=312_000_000), PAIR, BARE)
    assert found.ops.dur_ns.tolist()[:5] == [700, 1000, 1234, 8_000_000, 0]


def test_recorded_compute_keeps_its_time_and_communication_gets_a_new_one() -> None:
    fast = parse("{hosts: {count: 2, device: a100-80}, link: {rate: 80Gbps}}")
    assert price(drawn(flops=1), fast, BARE).ops.dur_ns.tolist()[2:4] == [1234, 800_000]


def test_every_price_has_an_interval_and_a_basis() -> None:
    found = prices(drawn(flops=312_000_000), PAIR, BARE)
    assert (found.low_ns <= found.dur_ns).all()
    assert (found.dur_ns <= found.high_ns).all()
    assert [Basis(b) for b in found.basis[[1, 2]]] == [Basis.DATASHEET, Basis.RECORDED]
    one = found[1]
    assert (one.dur_ns, one.basis) == (1000, Basis.DATASHEET)
    assert one.high_ns == round(1000 * (1 + SPREAD[Basis.DATASHEET]))


def test_both_fidelities_agree_where_nothing_is_shared() -> None:
    flows = Rates(BARE.efficiency, BARE.library, Fidelity.FLOWS)
    graph = drawn(flops=1)
    assert np.array_equal(prices(graph, PAIR, BARE).dur_ns, prices(graph, PAIR, flows).dur_ns)


def test_an_op_of_unknown_work_and_a_cluster_too_small_are_refused() -> None:
    with pytest.raises(CostError, match="op 1 'kernel'"):
        price(drawn(), PAIR, BARE)
    with pytest.raises(ClusterError, match="2 workers do not fit"):
        price(drawn(flops=1), parse("{hosts: {count: 1, device: a100-80}, link: ethernet-1g}"))


def test_a_message_takes_one_links_time() -> None:
    b = GraphBuilder()
    group, instance = b.group("pair", (0, 1)), b.instance()
    for rank, kind in enumerate((OpKind.SEND, OpKind.RECV)):
        b.op("activations", b.lane(rank=rank), UNPRICED, kind=kind, size_bytes=1_000_000,
             group=group, instance=instance)  # fmt: skip
    assert price(b.build(), PAIR, BARE).ops.dur_ns.tolist() == [1_000_000, 1_000_000]


def test_measured_tables_win_and_say_so() -> None:
    curve = Curve.through([0, 10**9], [5000, 6000])
    rates = Rates(kernels={"kernel": curve}, calls={(Collective.ALL_REDUCE, 2): curve})
    found = prices(drawn(flops=500_000_000), PAIR, rates)
    assert found.dur_ns[[1, 3]].tolist() == [5500, 5008]
    assert [Basis(b) for b in found.basis[[1, 3]]] == [Basis.MEASURED, Basis.MEASURED]


def test_a_network_with_another_share_prices_as_its_cluster_does() -> None:
    half = replace(PAIR, transport=replace(PAIR.transport, efficiency=0.5))
    shared = Network(PAIR).with_transport(half.transport)
    graph = drawn(flops=1)
    assert prices(graph, shared, BARE).dur_ns.tolist() == prices(graph, half, BARE).dur_ns.tolist()
    assert prices(graph, shared, BARE).dur_ns[3] == 2 * prices(graph, PAIR, BARE).dur_ns[3]


def test_messages_of_no_group_keep_their_recorded_time() -> None:
    b = GraphBuilder()
    b.group("pair", (0, 1))
    b.op("copy", b.lane(rank=0), 77, kind=OpKind.TRANSFER, size_bytes=8)
    b.op("copy", b.lane(rank=1), 78, kind=OpKind.TRANSFER, size_bytes=8)
    assert price(b.build(), PAIR, BARE).ops.dur_ns.tolist() == [77, 78]
