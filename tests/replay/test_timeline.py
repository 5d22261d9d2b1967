"""What a timeline tells, on graphs that can be checked by hand, and its laws on random ones."""

from dataclasses import fields

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paceline.errors import ReplayError
from paceline.graph import (
    Collective,
    DepKind,
    Discipline,
    Graph,
    GraphBuilder,
    MemoryCategory,
    OpKind,
    select,
)
from paceline.graph.distinct import BLOCK
from paceline.graph.side_by_side import side_by_side
from paceline.graph.synthetic import Parallel, Ring, TrainingJob, jumble, ring, training
from paceline.predict.classes import step_ns
from paceline.replay import Breakdown, Contention, Engine, Reason, Timeline, replay
from paceline.replay.steps import step_times

ENGINES = pytest.mark.parametrize(
    "engine",
    [Engine.REFERENCE, pytest.param(Engine.NATIVE, marks=pytest.mark.needs("native"))],
)


def replayed(seed: int) -> Timeline | None:
    try:
        return replay(jumble(seed))
    except ReplayError:
        return None


@settings(deadline=None, max_examples=150)
@given(st.integers(0, 10**9))
def test_the_shares_of_the_critical_path_sum_to_the_step(seed: int) -> None:
    if timeline := replayed(seed):
        path = timeline.critical_path
        assert path.share_ns.sum() == timeline.step_ns
        for shares in (path.by_kind, path.by_layer, path.by_rank, path.by_lane):
            assert sum(shares.values()) == timeline.step_ns
        assert not timeline.slack_ns[path.ops[path.share_ns > 0]].any()
        assert timeline.slack_ns.min() >= 0


@settings(deadline=None, max_examples=150)
@given(st.integers(0, 10**9))
def test_every_breakdown_sums_to_the_step(seed: int) -> None:
    if timeline := replayed(seed):
        for rank in timeline.breakdown.ranks:
            shares = timeline.breakdown.of(rank)
            assert sum(shares.values()) == timeline.step_ns
            assert min(shares.values()) >= 0


def test_a_graph_of_many_blocks_is_summed_up_as_each_of_its_jobs_is() -> None:
    job = training(TrainingJob(Parallel.DDP, workers=3, layers=30, steps=4))
    uneven = np.where(job.ops.rank == 1, 2 * job.ops.dur_ns, job.ops.dur_ns)  # others wait for it
    one, count = replay(job, prices=uneven), 2 * BLOCK // len(job) + 1
    many = replay(side_by_side([job] * count).graph, prices=np.tile(uneven, count))
    assert step_times(many) == step_times(one)
    assert step_ns(many) == step_ns(one)
    assert np.array_equal(many.occupancy.work_ns, np.tile(one.occupancy.work_ns, count))
    assert np.array_equal(many.occupancy.waiting_ns, np.tile(one.occupancy.waiting_ns, count))
    for field in fields(Breakdown)[1:]:
        shares = getattr(one.breakdown, field.name)
        assert np.array_equal(getattr(many.breakdown, field.name), np.tile(shares, count)), field
    assert one.breakdown.waiting_ns.any()


@settings(deadline=None, max_examples=100)
@given(st.integers(0, 10**9))
def test_an_op_starts_after_its_dependencies_and_after_its_lanes_last_op(seed: int) -> None:
    if timeline := replayed(seed):
        for op in timeline.graph:
            ready = int(timeline.ready_ns[op.id])
            assert all(timeline.end_ns[dep] <= ready for dep in op.deps)
            previous = int(timeline.previous[op.id])
            assert previous < 0 or timeline.end_ns[previous] <= ready
            assert timeline.end_ns[op.id] - timeline.start_ns[op.id] == op.dur_ns


@settings(deadline=None, max_examples=100)
@given(st.integers(0, 10**9), st.floats(0, 1))
def test_a_faster_op_never_lengthens_the_step_in_recorded_order(seed: int, factor: float) -> None:
    graph = jumble(seed, recorded=True)
    faster = np.rint(graph.ops.dur_ns * factor).astype(np.int64)
    assert replay(graph, prices=faster).step_ns <= replay(graph).step_ns


def test_a_faster_link_shortens_a_job_that_waits_for_it() -> None:
    graph = ring(Ring(ranks=4))
    prices = graph.ops.dur_ns.copy()
    prices[select(graph, "kind=transfer")] //= 2
    assert replay(graph, prices=prices).step_ns < 0.7 * replay(graph).step_ns


def waiting() -> Graph:
    """Rank 0 computes 3 ns, rank 1 7 ns, then both reduce for 2 ns and rank 0 updates for 1 ns."""
    b = GraphBuilder()
    lanes = [b.lane(rank) for rank in range(2)]
    group, instance = b.group("all", range(2)), b.instance()
    for rank, dur_ns in enumerate((3, 7)):
        b.op(f"compute {rank}", lanes[rank], dur_ns, layer=f"layer {rank}")
    for rank in range(2):
        b.op(
            "all_reduce",
            lanes[rank],
            2,
            kind=OpKind.COLLECTIVE,
            collective=Collective.ALL_REDUCE,
            group=group,
            instance=instance,
        )
    b.op("update", lanes[0], 1)
    return b.build()


@ENGINES
def test_waiting_is_told_from_transfer(engine: Engine) -> None:
    timeline = replay(waiting(), engine=engine)
    assert timeline.ready_ns.tolist() == [0, 0, 3, 7, 9]
    assert timeline.start_ns.tolist() == [0, 0, 7, 7, 9]
    assert timeline.end_ns.tolist() == [3, 7, 9, 9, 10]
    assert timeline.breakdown.of(0) == {
        "overlapped_ns": 0,
        "exposed_compute_ns": 4,  # 3 of compute, 1 of update
        "exposed_transfer_ns": 2,
        "waiting_ns": 4,  # from 3 to 7
        "data_loading_ns": 0,
        "idle_ns": 0,
    }
    assert timeline.breakdown.of(1)["idle_ns"] == 1  # from 9 to 10
    assert timeline.occupancy.waiting_ns.tolist() == [4, 0]


@ENGINES
def test_the_critical_path_passes_through_the_member_that_came_last(engine: Engine) -> None:
    path = replay(waiting(), engine=engine).critical_path
    # compute 1 (7) -> its all_reduce arrives last -> rank 0's all_reduce (2) -> update (1)
    assert path.ops.tolist() == [1, 3, 2, 4]
    assert path.reasons == (Reason.FIRST, Reason.LANE, Reason.MEMBER, Reason.LANE)
    assert path.share_ns.tolist() == [7, 0, 2, 1]
    assert path.by_kind == {"compute": 8, "collective": 2}
    assert path.by_layer == {"layer 1": 7, "": 3}


@ENGINES
def test_slack_is_what_an_op_may_be_late_by(engine: Engine) -> None:
    # rank 0's compute may end at 7 instead of 3; rank 1's all_reduce at 10 instead of 9, were it
    # alone, but its members start together, so only its end has room
    assert replay(waiting(), engine=engine).slack_ns.tolist() == [4, 0, 0, 1, 0]


@ENGINES
def test_a_priority_lane_serves_by_priority_then_readiness_then_id(engine: Engine) -> None:
    b = GraphBuilder()
    lane = b.lane(discipline=Discipline.PRIORITY)
    feeder = b.lane(name="feeder")
    ready = b.op("feed", feeder, 1)
    b.op("late", lane, 5, after=[ready], priority=0)  # ready at 1, priority 0
    b.op("first", lane, 4, priority=2)  # ready at 0, alone then
    b.op("c", lane, 3, priority=1)  # ready at 0, priority 1: goes first of all
    b.op("d", lane, 2, priority=2)  # ready at 0, ties with "first", higher id
    timeline = replay(b.build(), engine=engine)
    # t=0: c; t=3: late (priority 0); t=8: first (id 2); t=12: d
    assert timeline.start_ns.tolist() == [0, 3, 8, 0, 12]
    assert timeline.previous.tolist() == [-1, 3, 1, -1, 2]


@ENGINES
def test_a_drain_waits_for_what_was_launched_by_then_and_no_more(engine: Engine) -> None:
    b = GraphBuilder()
    host, gpu = b.lane(name="host"), b.lane(name="stream")
    first = b.op("launch 1", host, 1, kind=OpKind.HOST)
    second = b.op("launch 2", host, 1, kind=OpKind.HOST)
    sync = b.op("synchronise", host, 1, kind=OpKind.WAIT)
    third = b.op("launch 3", host, 1, kind=OpKind.HOST)
    for launch in (first, second, third):
        b.op(f"kernel of {launch}", gpu, 10, after=[launch], dep=DepKind.LAUNCH)
    b.drain(sync, gpu)
    timeline = replay(b.build(), engine=engine)
    # launches end at 1 and 2; kernels run 1-11 and 11-21; synchronise arrives at 2, starts at 21,
    # ends at 22; launch 3 ends at 23, its kernel runs 23-33
    assert timeline.ready_ns.tolist()[:4] == [0, 1, 2, 22]
    assert timeline.start_ns.tolist() == [0, 1, 21, 22, 1, 11, 23]
    assert timeline.step_ns == 33
    assert timeline.columns.drained.tolist() == [[2, 4], [2, 5]]
    assert Reason.DRAIN in timeline.critical_path.reasons


@ENGINES
def test_a_drain_does_not_wait_for_what_another_thread_launched_too_early(engine: Engine) -> None:
    b = GraphBuilder()
    host, thread, gpu = b.lane(name="host"), b.lane(name="backward"), b.lane(name="stream")
    first = b.op("launch 1", host, 1, kind=OpKind.HOST)
    sync = b.op("synchronise", host, 1, kind=OpKind.WAIT)
    second = b.op("launch 2", host, 1, kind=OpKind.HOST)
    early = b.op("launch 3", thread, 1, kind=OpKind.HOST)
    for launch in (first, second, early):
        b.op(f"kernel of {launch}", gpu, 10, after=[launch], dep=DepKind.LAUNCH)
    b.drain(sync, gpu)
    timeline = replay(b.build(), engine=engine)
    # the third kernel is launched at 1, and stands behind the second, which is launched at 13
    assert timeline.columns.drained.tolist() == [[1, 4]]
    assert timeline.start_ns.tolist() == [0, 11, 12, 0, 1, 13, 23]


@ENGINES
def test_overlap_slows_both_sorts_and_only_while_it_lasts(engine: Engine) -> None:
    b = GraphBuilder()
    b.op("compute", b.lane(name="compute"), 100)
    b.op("transfer", b.lane(name="link"), 30, kind=OpKind.TRANSFER)
    graph = b.build()
    slow = Contention.everywhere(graph, compute=2, communication=1.5)
    timeline = replay(graph, contention=slow, engine=engine)
    # the transfer runs at 1/1.5: 30 ns of work take 45 ns (4096/1.5 rounds to 2731 units a ns:
    # ceil(122880 / 2731) = 45); by then compute did 22.5 ns, the other 77.5 take until 122.5 -> 123
    assert timeline.end_ns.tolist() == [123, 45]


@ENGINES
def test_a_collective_goes_at_the_rate_of_its_slowest_member(engine: Engine) -> None:
    b = GraphBuilder()
    links = [b.lane(rank, "link") for rank in range(2)]
    group, instance = b.group("all", range(2)), b.instance()
    b.op("compute", b.lane(1, "compute"), 100)
    for link in links:
        b.op("reduce", link, 40, kind=OpKind.COLLECTIVE, group=group, instance=instance)
    graph = b.build()
    slow = Contention.everywhere(graph, compute=1, communication=2)
    timeline = replay(graph, contention=slow, engine=engine)
    assert timeline.end_ns.tolist() == [100, 80, 80]  # rank 0 computes nothing, yet is held up


def test_memory_has_a_peak_and_names_who_holds_it() -> None:
    b = GraphBuilder()
    lane = b.lane()
    forward = [b.op(f"forward {i}", lane, 10) for i in range(2)]
    backward = [b.op(f"backward {i}", lane, 20) for i in (1, 0)]
    for op in forward:
        b.allocate(op, 100, MemoryCategory.ACTIVATIONS)
    for op in backward:
        b.allocate(op, 30, MemoryCategory.GRADIENTS)
        b.allocate(op, -100, MemoryCategory.ACTIVATIONS, at_end=True)
    curve = replay(b.build()).memory[0]
    # 0: 100, 10: 200, 20: 230, 40: -100 and +30 -> 160, 60: 60
    assert list(zip(curve.time_ns.tolist(), curve.held_bytes.tolist())) == [
        (0, 100),
        (10, 200),
        (20, 230),
        (40, 130),
        (40, 160),
        (60, 60),
    ]
    assert (curve.peak_bytes, curve.peak_ns) == (230, 20)
    assert curve.alive_at_peak.tolist() == [0, 1, 2]


def test_a_device_without_allocations_has_an_empty_curve() -> None:
    curve = replay(waiting()).memory[0]
    assert (curve.peak_bytes, curve.peak_ns, curve.alive_at_peak.tolist()) == (0, 0, [])
