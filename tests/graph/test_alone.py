"""`alone`: what a sharded replica no longer does when it is the only one."""

from paceline.graph import (
    Axis,
    Collective,
    DepKind,
    Facts,
    Graph,
    GraphBuilder,
    LaneKind,
    OpKind,
    Phase,
)
from paceline.graph.alone import alone
from paceline.graph.facts import Parameter
from paceline.strategies import parse

TALK, FORWARD = Phase.COMMUNICATION, Phase.FORWARD


def sharded(axis: Axis = Axis.DATA, gathered_bytes: int = 1000) -> GraphBuilder:
    """Two ranks that each compute (1), copy into a buffer (20), gather, end the call (300), copy
    the weights out (4,000) and hand over a call of a tensor-parallel group (50,000)."""
    b = GraphBuilder(facts=Facts(world_size=2, parameters=(Parameter("w", 1000),)))
    group, other = b.group("shards", (0, 1), axis), b.group("halves", (0, 1), Axis.TENSOR)
    gathering, summing = b.instance(), b.instance()
    for rank in (0, 1):
        main, comm = b.lane(rank), b.lane(rank, "comm", kind=LaneKind.COMM_THREAD)
        b.op("mm", main, 1, phase=FORWARD)
        copied = b.op("copy in", main, 20, kind=OpKind.HOST, phase=TALK)
        call = b.op("gather", comm, 9, after=[copied], dep=DepKind.LAUNCH, kind=OpKind.COLLECTIVE,
                    collective=Collective.ALL_GATHER, size_bytes=gathered_bytes, group=group,
                    instance=gathering)  # fmt: skip
        b.op("wait", main, after=[call], dep=DepKind.WAIT, kind=OpKind.WAIT, phase=TALK)
        b.op("end of call", main, 300, kind=OpKind.HOST, phase=TALK)
        out = b.op("copy out", main, 4000, phase=FORWARD)
        b.op("sum", comm, 9, after=[out], dep=DepKind.LAUNCH, kind=OpKind.COLLECTIVE,
             size_bytes=8,
             collective=Collective.ALL_REDUCE, group=other, instance=summing)  # fmt: skip
        b.op("hand over", main, 50_000, kind=OpKind.HOST, phase=TALK)
    return b


def worked(graph: Graph) -> int:
    ops = graph.ops
    return int(ops.dur_ns[(ops.rank == 0) & (ops.kind != OpKind.COLLECTIVE)].sum())


def test_what_is_done_only_to_gather_goes_and_all_else_stays() -> None:
    assert worked(sharded().build()) == 54_321
    assert worked(alone(sharded().build())) == 54_001


def test_a_hand_over_behind_what_leads_to_it_goes_too() -> None:
    b = sharded()
    group, instance = 0, b.instance()
    for rank in (0, 1):
        main, comm = b.lane(rank, "second"), b.lane(rank, "comm 2", kind=LaneKind.COMM_THREAD)
        ready = b.op("mm", main, 600_000, phase=FORWARD)
        b.op("reduce", comm, 9, after=[ready], dep=DepKind.LAUNCH, kind=OpKind.COLLECTIVE,
             size_bytes=8,
             collective=Collective.ALL_REDUCE, group=group, instance=instance)  # fmt: skip
        b.op("hand over", main, 7_000_000, kind=OpKind.HOST, phase=TALK)
    assert worked(alone(b.build())) == 654_001


def test_replicas_that_hold_whole_weights_call_all_the_same() -> None:
    graph = sharded(gathered_bytes=100).build()
    assert alone(graph) is graph


def test_one_worker_of_a_sharded_job_is_alone() -> None:
    graph = sharded().build()
    assert worked(parse("workers(count=1)").transform(graph)) == 54_001
    assert worked(parse("workers(count=3)").transform(graph)) == 54_321
