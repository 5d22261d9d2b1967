"""Recordings taken apart and put together for other workers, buckets, batches, exchanges."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paceline.cluster import Cluster, Device, Host, Link
from paceline.cost import GLOO, Rates, price
from paceline.cost.retarget import (
    Beat,
    BeatKind,
    Exchange,
    Job,
    RetargetError,
    Target,
    buckets_of,
    device_factor,
    emit,
    read_job,
)
from paceline.graph import (
    UNPRICED,
    Collective,
    DepKind,
    DType,
    Graph,
    GraphBuilder,
    LaneKind,
    OpKind,
    Phase,
    check,
)
from paceline.replay import replay

FORWARD, BACKWARD, COPY, UPDATE = 300, 200, 40, 60
SIZES = {"w1": 600, "w2": 400}


def recording(ranks: int = 2, steps: int = 3, *, parameters: bool = True) -> Graph:
    """Forward, backward of w2 and of w1, one bucket of both, its wait, copying back, update."""
    facts = {
        "parameters": [[name, size] for name, size in SIZES.items()],
        "buckets": [["w2", "w1"]],
    }
    made = GraphBuilder(facts if parameters else {})
    group = made.group("0", range(ranks))
    lanes = [
        (made.lane(r, "main"), made.lane(r, "gloo", kind=LaneKind.COMM_THREAD))
        for r in range(ranks)
    ]
    for step in range(steps):
        instance = made.instance()
        for main, gloo in lanes:
            made.op("step", main, kind=OpKind.MARKER, step=step)
            made.op("addmm", main, FORWARD, phase=Phase.FORWARD, step=step)
            made.op("mm", main, BACKWARD, phase=Phase.BACKWARD, tensor="w2", step=step)
            made.op("mm", main, BACKWARD, phase=Phase.BACKWARD, tensor="w1", step=step)
            handed = made.op("c10d", main, kind=OpKind.HOST, phase=Phase.COMMUNICATION, step=step)
            sent = made.op(
                "gloo:all_reduce", gloo, 1000, after=[handed], dep=DepKind.LAUNCH,
                kind=OpKind.COLLECTIVE, collective=Collective.ALL_REDUCE, size_bytes=1000,
                group=group, instance=instance, dtype=DType.FLOAT32, step=step,
            )  # fmt: skip
            made.op("wait", main, after=[sent], dep=DepKind.WAIT, kind=OpKind.WAIT, step=step)
            made.op("copy", main, COPY, phase=Phase.BACKWARD, step=step)
            made.op("sgd", main, UPDATE, phase=Phase.UPDATE, step=step)
    return made.build()


def kinds(row: tuple[Beat, ...]) -> list[tuple[BeatKind, int]]:
    return [(beat.kind, beat.which) for beat in row if beat.kind is not BeatKind.WORK]


def cluster(workers: int, rate: float = 1e9) -> Cluster:
    hosts = tuple(Host(f"h{i}", Device("core")) for i in range(workers))
    return Cluster(hosts, Link.both_ways(rate))


def test_a_recorded_step_is_taken_apart_into_work_gradients_calls_and_waits() -> None:
    job = read_job(recording())
    assert len(job.workers) == 2
    assert kinds(job.workers[0]) == [
        (BeatKind.GRADIENT, 1),
        (BeatKind.GRADIENT, 0),
        (BeatKind.CALL, 0),
        (BeatKind.WAIT, 0),
    ]
    work = [beat.dur_ns for beat in job.workers[0] if beat.kind is BeatKind.WORK]
    assert sum(work) == FORWARD + 2 * BACKWARD + COPY + UPDATE
    assert job.calls[0].bucket == 0
    assert job.buckets == ((1, 0),)


def test_put_together_unchanged_it_takes_as_long_as_recorded() -> None:
    graph = recording()
    made = emit(read_job(graph), Target())
    again = replay(made, prices=np.where(made.ops.dur_ns < 0, 1000, made.ops.dur_ns))
    assert again.step_ns == replay(graph).step_ns


def test_workers_are_repeated_and_their_difference_stays() -> None:
    job = read_job(recording())
    slow = tuple(replace(b, dur_ns=2 * b.dur_ns) for b in job.workers[1])
    graph = emit(replace(job, workers=(job.workers[0], slow)), Target(workers=5))
    assert graph.ranks == (0, 1, 2, 3, 4)
    work = np.bincount(graph.ops.rank, np.maximum(graph.ops.dur_ns, 0))
    assert work[0] == work[2] == work[4] == work[1] / 2 == work[3] / 2
    assert graph.groups[0].ranks == (0, 1, 2, 3, 4)
    check(graph)


def test_smaller_buckets_are_handed_over_as_soon_as_their_gradient_is_ready() -> None:
    job = read_job(recording())
    graph = emit(job, Target(bucket_bytes=1), steps=1)
    talks = np.flatnonzero((graph.ops.kind == OpKind.COLLECTIVE) & (graph.ops.rank == 0))
    assert graph.ops.size_bytes[talks].tolist() == [SIZES["w2"], SIZES["w1"]]
    assert (graph.ops.dur_ns[talks] == UNPRICED).all()
    prices = np.where(graph.ops.dur_ns < 0, 30, graph.ops.dur_ns)
    line = replay(graph, prices=prices)
    first = FORWARD + BACKWARD  # the first gradient
    assert line.start_ns[talks].tolist() == [first, first + BACKWARD]
    # The first bucket travels behind the backward pass of w1, and is copied back while the
    # second travels: only the second is waited for.
    second = COPY * SIZES["w1"] // 1000
    assert line.step_ns == FORWARD + 2 * BACKWARD + 30 + second + UPDATE


def test_copying_back_is_shared_out_among_buckets_by_their_bytes() -> None:
    graph = emit(read_job(recording()), Target(bucket_bytes=1), steps=1)
    waits = np.flatnonzero((graph.ops.kind == OpKind.WAIT) & (graph.ops.rank == 0))
    copies = graph.ops.dur_ns[waits + 1].tolist()
    assert copies == [COPY * SIZES["w2"] // 1000, COPY * SIZES["w1"] // 1000]


def test_a_larger_batch_lengthens_forward_and_backward_but_not_the_update() -> None:
    job = read_job(recording())
    graph = emit(job, Target(batch=2.0), steps=1)
    took = graph.ops.dur_ns[(graph.ops.rank == 0) & (graph.ops.phase == Phase.UPDATE)].sum()
    assert took == UPDATE
    forward = graph.ops.dur_ns[(graph.ops.rank == 0) & (graph.ops.phase == Phase.FORWARD)].sum()
    assert forward == 2 * FORWARD


def test_a_parameter_server_pushes_and_pulls_in_place_of_all_reduce() -> None:
    job = read_job(recording())
    graph = emit(job, Target(exchange=Exchange.PARAMETER_SERVER), steps=1)
    mine = (graph.ops.rank == 0) & (graph.ops.kind == OpKind.COLLECTIVE)
    assert graph.ops.collective[mine].tolist() == [Collective.PUSH, Collective.PULL]
    priced = price(graph, cluster(2), Rates(library=GLOO))
    assert replay(priced).step_ns > FORWARD + 2 * BACKWARD + COPY + UPDATE
    check(graph)


@settings(deadline=None, max_examples=30)
@given(
    workers=st.integers(2, 6),
    bucket=st.integers(1, 1200),
    rates=st.tuples(st.integers(1, 50), st.integers(1, 50)),
)
def test_a_faster_link_never_lengthens_the_step(
    workers: int, bucket: int, rates: tuple[int, int]
) -> None:
    graph = emit(read_job(recording()), Target(workers=workers, bucket_bytes=bucket))
    check(graph)
    slow, fast = (
        replay(price(graph, cluster(workers, 1e8 * rate), Rates(library=GLOO))).step_ns
        for rate in sorted(rates)
    )
    assert fast <= slow


@settings(deadline=None, max_examples=50)
@given(sizes=st.lists(st.integers(1, 100), min_size=1, max_size=20), limit=st.integers(1, 300))
def test_buckets_hold_every_gradient_once_and_close_when_they_reach_the_limit(
    sizes: list[int], limit: int
) -> None:
    order = list(reversed(range(len(sizes))))
    buckets = buckets_of(order, sizes, limit)
    assert [p for bucket in buckets for p in bucket] == order
    for bucket in buckets[:-1]:
        assert sum(sizes[p] for p in bucket) >= limit
        assert sum(sizes[p] for p in bucket[:-1]) < limit


def test_ddps_default_first_bucket_is_smaller() -> None:
    assert buckets_of([3, 2, 1, 0], [10, 10, 10, 10], 20, 5) == ((3,), (2, 1), (0,))


def test_steps_that_were_disturbed_do_not_move_the_median() -> None:
    graph = recording(steps=3)
    dur = graph.ops.dur_ns.copy()
    late = (graph.ops.step == 1) & (graph.ops.phase == Phase.FORWARD)
    dur[late] *= 100
    job = read_job(replace(graph, ops=replace(graph.ops, dur_ns=dur)))
    assert job.workers[0][0].dur_ns == FORWARD


def test_a_device_scales_between_its_memory_and_its_arithmetic() -> None:
    old = Device("old", memory_bytes_per_s=1e9, flops_per_s={DType.FLOAT32: 1e9})
    new = Device("new", memory_bytes_per_s=4e9, flops_per_s={DType.FLOAT32: 16e9})
    factor = device_factor(old, new, DType.FLOAT32)
    assert (factor.low, factor.middle, factor.high) == (1 / 16, 1 / 8, 1 / 4)
    with pytest.raises(RetargetError, match="memory rate"):
        device_factor(Device("bare"), new, DType.FLOAT32)


def test_a_group_of_some_ranks_is_refused_by_name() -> None:
    graph = recording(ranks=2)
    made = replace(graph, groups=(replace(graph.groups[0], name="tensor", ranks=(0,)),))
    with pytest.raises(RetargetError, match="group tensor"):
        read_job(made)


def test_device_streams_are_refused() -> None:
    graph = recording()
    lanes = replace(graph.lanes, kind=np.full(len(graph.lanes), LaneKind.STREAM, np.uint8))
    with pytest.raises(RetargetError, match="device streams"):
        read_job(replace(graph, lanes=lanes))


def test_buckets_cannot_change_where_nothing_tells_them() -> None:
    job = read_job(recording(parameters=False))
    with pytest.raises(RetargetError, match="when each gradient is ready"):
        emit(job, Target(bucket_bytes=100))
    with pytest.raises(RetargetError, match="which calls reduce gradients"):
        emit(job, Target(exchange=Exchange.PARAMETER_SERVER))


def test_steps_that_communicate_differently_are_refused() -> None:
    graph = recording(steps=2)
    keep = ~((graph.ops.step == 1) & (graph.ops.rank == 1))
    kind = np.where(keep | (graph.ops.kind != OpKind.COLLECTIVE), graph.ops.kind, OpKind.MARKER)
    tensor = np.where((graph.ops.step == 0) & (graph.ops.rank == 0), -1, graph.ops.tensor)
    changed = {"kind": kind.astype(np.uint8), "tensor": tensor.astype(np.int32)}
    with pytest.raises(RetargetError, match="recorded steps differ"):
        read_job(replace(graph, ops=replace(graph.ops, **changed)))


def test_targets_that_cannot_be_are_refused() -> None:
    with pytest.raises(RetargetError, match="negative"):
        Target(workers=-1)
    with pytest.raises(RetargetError, match="negative"):
        Target(bucket_bytes=-5)
    with pytest.raises(RetargetError, match="above zero"):
        Target(batch=0.0)
    with pytest.raises(RetargetError, match="above zero"):
        Target(compute=-1.0)


def test_jobs_compare_by_value() -> None:
    assert read_job(recording()) == read_job(recording())
    assert isinstance(read_job(recording()), Job)
