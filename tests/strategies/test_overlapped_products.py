"""Which sums of products are overlapped, and how the step comes out."""

import pytest

from paceline.errors import GraphError
from paceline.graph import Axis, Collective, DepKind, Graph, LaneKind, OpKind, Phase, check
from paceline.graph.builder import GraphBuilder
from paceline.replay import replay
from paceline.strategies import parse

US = 1000


def job(*between: str, phase: Phase = Phase.FORWARD) -> Graph:
    """A product of 800 us that two workers add up in 400 us, with calls of 10 us between them."""
    b = GraphBuilder()
    group, instance = b.group("0", (0, 1), Axis.TENSOR), b.instance()
    for rank in (0, 1):
        main, gloo = b.lane(rank, "main"), b.lane(rank, "gloo", kind=LaneKind.COMM_THREAD)
        b.op("aten::addmm", main, 800 * US, phase=phase)
        for name in between:
            b.op(name, main, 10 * US, phase=phase)
        asked = b.op("c10d", main, kind=OpKind.HOST, phase=Phase.COMMUNICATION)
        sent = b.op(
            "gloo:all_reduce", gloo, 400 * US, after=[asked], dep=DepKind.LAUNCH, group=group,
            kind=OpKind.COLLECTIVE, phase=Phase.COMMUNICATION, instance=instance,
            collective=Collective.ALL_REDUCE, size_bytes=6400,
        )  # fmt: skip
        b.op("wait", main, after=[sent], dep=DepKind.WAIT, kind=OpKind.WAIT)
    return check(b.build())


def overlapped(graph: Graph) -> Graph:
    return check(parse("overlapped_products(chunks=4)").transform(graph))


def test_chunks_of_the_product_and_their_sums_stand_behind_each_other() -> None:
    made = overlapped(job()).ops
    mine = made.rank == 0
    assert made.dur_ns[mine & (made.phase == Phase.FORWARD)].tolist() == [200 * US] * 4
    assert made.size_bytes[mine & (made.kind == OpKind.COLLECTIVE)].tolist() == [1600] * 4


def test_sums_travel_beside_the_products_of_later_rows() -> None:
    """Four chunks of 200 us, each summed in 100: only the last sum is waited for."""
    made = overlapped(job())
    dur_ns = made.ops.dur_ns.copy()
    dur_ns[made.ops.kind == OpKind.COLLECTIVE] = 100 * US
    assert replay(made, prices=dur_ns).step_ns == 900 * US


@pytest.mark.parametrize("chunks", [2, 8])
def test_copies_and_the_frameworks_calls_stand_between_a_product_and_its_sum(chunks: int) -> None:
    """As torch's RowwiseParallel has them."""
    between = ("aten::linear", "Redistribute", "_c10d_functional::all_reduce", "aten::copy_")
    graph = job(*between)
    made = check(parse(f"overlapped_products(chunks={chunks})").transform(graph))
    assert int((made.ops.kind == OpKind.COLLECTIVE).sum()) == 2 * chunks


def test_what_is_computed_from_a_product_is_no_product() -> None:
    with pytest.raises(GraphError, match="no sum of a product"):
        overlapped(job("aten::gelu"))


def test_sums_of_the_backward_pass_stay() -> None:
    with pytest.raises(GraphError, match="no sum of a product"):
        overlapped(job(phase=Phase.BACKWARD))
