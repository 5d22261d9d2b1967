"""Programs as ops of a graph: who waits for whom, and what replay makes of it."""

import pytest

from paceline.cluster import Cluster, Device, Host, Link
from paceline.cost import price
from paceline.graph import UNPRICED, Collective, DType, GraphBuilder, OpKind, check
from paceline.predict import predict
from paceline.replay import replay
from paceline.weave.emit import Lanes, Site, as_graph, emit
from paceline.weave.layout import Group
from paceline.weave.programs import adam, hand_over, mlp, sgd
from paceline.weave.schedules import schedule
from paceline.weave.traffic import Rates

TWO = Group.world(2)
DEVICE = Device("a CPU", memory_bytes_per_s=1e10, flops_per_s={DType.FLOAT32: 1e11})
RATES = Rates(10e9, 1e9, 1e12, launch_s=0.0, message_s=0.0)


def test_a_fused_step_is_a_collective_in_a_kernel_and_a_collective_out() -> None:
    graph = check(as_graph(schedule(adam(1000, TWO), "fused(RS-C-AG) sharded").program))
    rank0 = [op for op in graph if op.rank == 0]
    assert [op.collective for op in rank0] == [
        Collective.REDUCE_SCATTER,
        Collective.NONE,
        Collective.ALL_GATHER,
    ]
    assert [op.size_bytes for op in rank0][::2] == [4000, 4000]
    assert all(op.dur_ns == UNPRICED for op in graph)
    assert rank0[1].deps == (rank0[0].id,)
    assert rank0[2].deps == (rank0[1].id,)


def test_by_hand_sgd_takes_its_bytes_over_the_rates() -> None:
    """AllReduce of 4 MB over 1 GB/s: 4 ms. Three launches at 10 GB/s, in MB: the mean (8),
    the new weights from it and the old ones (12), their store (8)."""
    graph = check(as_graph(sgd(1_000_000, TWO), RATES))
    assert replay(graph).step_ns == pytest.approx(4e6 + 2.8e6, rel=1e-3)


def test_overlapped_chunks_run_side_by_side() -> None:
    step = mlp(1024, 256, TWO)
    rates = Rates(1e12, 1e9, 1e11, launch_s=0.0, message_s=0.0)
    serial = replay(check(as_graph(step, rates))).step_ns
    together = replay(check(as_graph(schedule(step, "overlap(MM, AR)").program, rates))).step_ns
    assert together < serial


def test_a_send_is_a_message_from_rank_to_rank() -> None:
    step = hand_over(8, 4, TWO, Group((2, 3), "next"), dtype=DType.FLOAT32)
    graph = check(as_graph(schedule(step, "RS-C-P2P-AG").program, RATES))
    kinds = [(op.kind, op.rank) for op in graph if op.kind in (OpKind.SEND, OpKind.RECV)]
    assert kinds == [(OpKind.SEND, 0), (OpKind.RECV, 2), (OpKind.SEND, 1), (OpKind.RECV, 3)]
    assert replay(graph).step_ns > 0


def test_a_program_joins_a_step_that_is_there() -> None:
    builder = GraphBuilder()
    lanes = {r: Lanes(builder.lane(r, "main"), builder.lane(r, "comm")) for r in range(2)}
    backward = {(r, "g"): builder.op("backward", lanes[r].compute, 100) for r in range(2)}
    ends = emit(sgd(8, TWO), builder, Site(lanes, backward, rates=RATES))
    graph = check(builder.build())
    first = next(op for op in graph if op.kind is OpKind.COLLECTIVE and op.rank == 0)
    assert first.deps == (backward[0, "g"],)
    assert ends[0, "w1"] == max(op.id for op in graph if op.rank == 0)


def test_costs_prices_what_was_left_unpriced() -> None:
    hosts = tuple(Host(f"h{i}", DEVICE) for i in range(2))
    slow, fast = (Cluster(hosts, Link.both_ways(rate)) for rate in (1e8, 1e10))
    step = adam(100_000, TWO)
    graph = price(as_graph(step), slow)
    assert (graph.ops.dur_ns >= 0).all()
    times = [predict(as_graph(step), (), cluster).step_ns for cluster in (fast, slow)]
    assert times[0] < times[1] == replay(graph).step_ns
