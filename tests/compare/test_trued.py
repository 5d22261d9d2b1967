"""Recorded work brought to plain steps, rank by rank and step by step."""

import numpy as np

from paceline.compare.trued import trued
from paceline.graph import Graph, GraphBuilder, LaneKind, OpKind


def recorded(*steps: tuple[int, ...], kind: LaneKind = LaneKind.THREAD) -> Graph:
    """One rank's work by step, a wait that is no work, and a short op on another thread."""
    b = GraphBuilder()
    main, other = b.lane(0, "main", kind=kind), b.lane(0, "other")
    for step, works in enumerate(steps):
        for ns in works:
            b.op("aten::mm", main, ns, step=step)
        b.op("waits", main, 10_000, kind=OpKind.WAIT, step=step)
        b.op("beside", other, 1_000, step=step)
    return b.build()


def work_of(graph: Graph, step: int) -> int:
    ops = graph.ops
    mine = (ops.kind == OpKind.COMPUTE) & (ops.lane == 0) & (ops.step == step)
    return int(ops.dur_ns[mine].sum())


def test_every_step_works_as_long_as_a_plain_one() -> None:
    graph = trued(recorded((60_000, 60_000), (190_000, 60_000)), {0: 100_000.0})
    assert abs(work_of(graph, 0) - 100_000) <= 2
    assert abs(work_of(graph, 1) - 100_000) <= 2


def test_a_small_surplus_is_taken_off_every_op_alike_and_not_by_share() -> None:
    graph = trued(recorded((95_000, 5_000)), {0: 98_000.0})
    assert graph.ops.dur_ns[:2].tolist() == [94_000, 4_000]


def test_waiting_and_other_threads_stay() -> None:
    before = recorded((60_000, 60_000))
    after = trued(before, {0: 100_000.0})
    assert np.array_equal(after.ops.dur_ns[2:], before.ops.dur_ns[2:])


def test_a_rank_without_a_count_and_a_device_stay_as_recorded() -> None:
    thread = recorded((60_000,))
    stream = recorded((60_000,), kind=LaneKind.STREAM)
    assert trued(thread, {}).ops.dur_ns.tolist() == thread.ops.dur_ns.tolist()
    assert trued(stream, {0: 10_000.0}).ops.dur_ns.tolist() == stream.ops.dur_ns.tolist()
