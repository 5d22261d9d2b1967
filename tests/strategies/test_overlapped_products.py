"""Products and their sums in chunks: what waits for what, and how long the whole takes."""

import numpy as np
import pytest

from paceline.cluster import Cluster, Host, Link
from paceline.cluster.files import device
from paceline.cost import GLOO, Library, Rates, prices
from paceline.errors import GraphError
from paceline.graph import (
    UNPRICED,
    Axis,
    Collective,
    DepKind,
    DType,
    Facts,
    Graph,
    GraphBuilder,
    LaneKind,
    OpKind,
    Phase,
    check,
)
from paceline.replay import replay
from paceline.strategies import StrategyError, parse

BYTES = 1000


def drawn(*between: str, phase: Phase = Phase.FORWARD, workers: int = 2) -> Graph:
    """Tensor-parallel workers: a product, its sum behind calls of 10 ns, and who waits."""
    b = GraphBuilder(facts=Facts(world_size=workers))
    group, instance = b.group("0", range(workers), Axis.TENSOR), b.instance()
    for rank in range(workers):
        main = b.lane(rank, "main")
        gloo = b.lane(rank, "gloo", kind=LaneKind.COMM_THREAD)
        b.op("aten::addmm", main, 100, phase=phase)
        b.op("aten::view", main, phase=phase)
        for name in between:
            b.op(name, main, 10, phase=phase)
        asked = b.op("c10d", main, kind=OpKind.HOST, phase=Phase.COMMUNICATION)
        sent = b.op(
            "gloo:all_reduce", gloo, 80, after=[asked], dep=DepKind.LAUNCH, group=group,
            kind=OpKind.COLLECTIVE, phase=Phase.COMMUNICATION, instance=instance,
            collective=Collective.ALL_REDUCE, dtype=DType.FLOAT32, size_bytes=BYTES,
        )  # fmt: skip
        b.op("wait", main, after=[sent], dep=DepKind.WAIT, kind=OpKind.WAIT)
        b.op("aten::add", main, 20, phase=Phase.FORWARD)
    return check(b.build())


def test_each_chunk_is_summed_behind_its_own_product() -> None:
    made = check(parse("overlapped_products(chunks=4)").transform(drawn()))
    products = [op for op in range(len(made)) if made[op].name == "aten::addmm"]
    assert [made[op].dur_ns for op in products] == [25] * 8
    calls = [op for op in range(len(made)) if made.ops.kind[op] == OpKind.COLLECTIVE]
    assert [made[op].size_bytes for op in calls] == [BYTES // 4] * 8
    assert all(made[op].dur_ns == UNPRICED for op in calls)
    sources = [{src for src in made[op].deps if made.ops.rank[src] == made.ops.rank[op]}
               for op in calls]  # fmt: skip
    assert sorted(src for found in sources for src in found if src in products) == products


@pytest.mark.parametrize(
    ("workers", "how"), [(2, Collective.POINT_TO_POINT), (3, Collective.ALL_REDUCE)]
)
def test_two_workers_swap_chunks_and_more_of_them_sum_by_the_library(
    workers: int, how: Collective
) -> None:
    plain = drawn(workers=workers)
    made = check(parse("overlapped_products(chunks=4)").transform(plain))
    before, after = (
        set(graph.ops.collective[graph.ops.kind == OpKind.COLLECTIVE].tolist())
        for graph in (plain, made)
    )
    assert (before, after) == ({Collective.ALL_REDUCE}, {how})


def test_swaps_take_their_time_on_the_link_and_have_no_burst_of_it_to_themselves() -> None:
    made = parse("overlapped_products(chunks=4)").transform(drawn())
    hosts = tuple(Host(f"h{i}", device("epyc-2c")) for i in range(2))
    place = Cluster(hosts, Link.both_ways(1e6, latency_ns=0))
    library = Library("mine", GLOO.algorithms, call_ns=7, message_ns=3, burst_s=1.0)
    dur = prices(made, place, Rates(library=library)).dur_ns
    swaps = made.ops.kind == OpKind.COLLECTIVE
    assert set(dur[swaps].tolist()) == {7 + 3 + BYTES // 4 * 1000}


def test_who_waited_for_the_sum_waits_for_every_chunk_and_ranks_share_each() -> None:
    made = parse("overlapped_products(chunks=3)").transform(drawn())
    for op in range(len(made)):
        if made.ops.kind[op] == OpKind.WAIT:
            waits = [src for src in made[op].deps if made.ops.kind[src] == OpKind.COLLECTIVE]
            assert len(waits) == 3
    talks = made.ops.kind == OpKind.COLLECTIVE
    assert sorted(made.ops.instance[talks].tolist()) == sorted([0, 0, 1, 1, 2, 2])
    assert made.ops.size_bytes[talks].sum() == 2 * BYTES


def test_a_sum_of_something_else_is_left_and_alone_it_is_refused() -> None:
    with pytest.raises(GraphError, match="no sum of a product"):
        parse("overlapped_products").transform(drawn("aten::gelu"))
    with pytest.raises(StrategyError, match="give 2 or more"):
        parse("overlapped_products(chunks=1)")


def test_copies_and_the_frameworks_calls_stand_between_a_product_and_its_sum() -> None:
    """As torch's RowwiseParallel has them."""
    between = ("aten::linear", "Redistribute", "_c10d_functional::all_reduce", "aten::copy_")
    made = check(parse("overlapped_products(chunks=4)").transform(drawn(*between)))
    assert int((made.ops.kind == OpKind.COLLECTIVE).sum()) == 8


def test_sums_of_the_backward_pass_stay() -> None:
    with pytest.raises(GraphError, match="no sum of a product"):
        parse("overlapped_products").transform(drawn(phase=Phase.BACKWARD))


def test_only_the_sum_of_the_last_rows_is_waited_for() -> None:
    """Four chunks of 25 ns, each summed in 20, before another 20 of work."""
    made = parse("overlapped_products(chunks=4)").transform(drawn())
    talks = made.ops.kind == OpKind.COLLECTIVE
    prices = np.where(talks, 20, made.ops.dur_ns)
    assert replay(made, prices=prices).step_ns == 100 + 20 + 20
