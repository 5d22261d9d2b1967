"""A change made on a small job gives the job that was generated that way, to the nanosecond."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from paceline.cluster import Cluster, Device, Host, Link
from paceline.cost import GLOO, Rates, prices
from paceline.errors import GraphError
from paceline.graph import Facts, Graph, GraphBuilder, OpKind, Phase, check
from paceline.graph.condense import STEPS, condense
from paceline.graph.kinds import NONE
from paceline.graph.one_lane import on_one_lane
from paceline.graph.synthetic import MachineKind, Parallel, ReplicaExchange, TrainingJob, training
from paceline.predict.classes import by_class, step_ns
from paceline.replay import replay
from paceline.strategies import parse, transformed

MIB = 1 << 20
WORKERS = st.integers(1, 5)
BUCKETS = st.sampled_from([1, MIB, 2 * MIB, 4 * MIB, 5 * MIB, 12 * MIB, 1000 * MIB])
BATCHES = st.sampled_from([0.5, 1.0, 2.0, 3.0])
RATES = st.sampled_from([1e9, 5e9, 2e10, 1e11])
SHAPES = st.sampled_from(
    [
        TrainingJob(),
        TrainingJob(micro_batches=2),
        TrainingJob(parallel=Parallel.FSDP2),
        TrainingJob(parallel=Parallel.TENSOR_DATA, tensor=2),
        TrainingJob(parallel=Parallel.PIPELINE_DATA, stages=2, micro_batches=3, layers=2),
    ]
)
REDUCING = SHAPES.filter(lambda job: job.parallel is not Parallel.FSDP2)
"""Jobs whose gradients travel in buckets."""
MACHINES = st.sampled_from(MachineKind)
OFTEN = settings(deadline=None, max_examples=40, suppress_health_check=[HealthCheck.too_slow])
SOMETIMES = settings(OFTEN, max_examples=15)


def cluster(workers: int, rate: float) -> Cluster:
    hosts = tuple(Host(f"h{i}", Device("core")) for i in range(workers))
    return Cluster(hosts, Link.both_ways(rate))


def measured(graph: Graph, rate: float = 5e9) -> tuple[int, Mapping[str, int]]:
    """The step on a cluster of such links, and what each class of work sums up to."""
    laid = on_one_lane(check(graph))
    found = prices(laid, cluster(laid.world_size, rate), Rates(library=GLOO))
    timeline = replay(laid, prices=found.dur_ns)
    return step_ns(timeline), by_class(timeline)


def changed(job: TrainingJob, *texts: str) -> Graph:
    return transformed(training(job), map(parse, texts))


def worked(graph: Graph) -> tuple[int, int]:
    """The time of all work that is priced but for copies, and the bytes that travel."""
    priced = np.isin(graph.ops.phase, (Phase.FORWARD, Phase.BACKWARD, Phase.UPDATE))
    priced &= graph.ops.layer != NONE
    talks = graph.ops.kind == OpKind.COLLECTIVE
    return int(graph.ops.dur_ns[priced].sum()), int(graph.ops.size_bytes[talks].sum())


@SOMETIMES
@given(MACHINES, RATES, st.integers(2, 5), st.integers(1, 3))
def test_weights_that_stay_gathered_are_those_of_a_job_that_gathers_once(
    machine: MachineKind, rate: float, workers: int, micro_batches: int
) -> None:
    job = TrainingJob(parallel=Parallel.FSDP2, machine=machine, workers=workers,
                      micro_batches=micro_batches)  # fmt: skip
    made = changed(job, "keep_gathered")
    assert measured(made, rate) == measured(training(replace(job, gathers_again=False)), rate)


def test_weights_that_are_gathered_once_cannot_stay_so_any_longer() -> None:
    for job in (TrainingJob(), TrainingJob(parallel=Parallel.FSDP2, gathers_again=False)):
        with pytest.raises(GraphError, match="gathers no weights a second time"):
            changed(job, "keep_gathered")


@OFTEN
@given(SHAPES, MACHINES, WORKERS, WORKERS, RATES)
def test_other_workers_give_the_job_of_as_many_workers(
    job: TrainingJob, machine: MachineKind, before: int, after: int, rate: float
) -> None:
    assume(before > 1 or job.parallel is not Parallel.FSDP2)  # one worker's update is not cut
    job = replace(job, machine=machine, workers=before)
    made = changed(job, f"workers(count={after})")
    assert made.world_size == len(made.ranks) == after * job.world // before
    assert measured(made, rate) == measured(training(replace(job, workers=after)), rate)


@OFTEN
@given(REDUCING, MACHINES, BUCKETS, BUCKETS, RATES)
def test_other_buckets_give_the_job_of_such_buckets(
    job: TrainingJob, machine: MachineKind, before: int, after: int, rate: float
) -> None:
    job = replace(job, machine=machine, bucket_bytes=before)
    made = changed(job, f"buckets(size_bytes={after})")
    assert measured(made, rate) == measured(training(replace(job, bucket_bytes=after)), rate)


@SOMETIMES
@given(REDUCING, MACHINES, BUCKETS, st.data())
def test_another_order_of_gradients_gives_the_job_of_such_an_order(
    job: TrainingJob, machine: MachineKind, bucket: int, data: st.DataObject
) -> None:
    job = replace(job, machine=machine)
    names = tuple(parameter.name for parameter in training(job).facts.parameters)
    order = data.draw(st.permutations(names))
    for text, wanted in ((" ".join(order), tuple(order)), ("last use", names[::-1])):
        made = changed(job, f"buckets(size_bytes={bucket}, order={text!r})")
        given_so = replace(job, bucket_bytes=bucket, order=wanted)
        assert measured(made) == measured(training(given_so))


@SOMETIMES
@given(REDUCING, MACHINES, BUCKETS, st.integers(1, 5), RATES)
def test_parts_of_each_bucket_give_the_job_of_such_parts(
    job: TrainingJob, machine: MachineKind, bucket: int, parts: int, rate: float
) -> None:
    job = replace(job, machine=machine, bucket_bytes=bucket)
    made = changed(job, f"partition(parts={parts})")
    assert measured(made, rate) == measured(training(replace(job, parts=parts)), rate)


@SOMETIMES
@given(REDUCING, MACHINES, BUCKETS, st.integers(1, 3), RATES)
def test_exchanges_by_priority_give_the_job_that_puts_them_in_that_order(
    job: TrainingJob, machine: MachineKind, bucket: int, parts: int, rate: float
) -> None:
    job = replace(job, machine=machine, bucket_bytes=bucket, parts=parts)
    wanted = training(replace(job, by_priority=True))
    assert measured(changed(job, "priority"), rate) == measured(wanted, rate)


@SOMETIMES
@given(REDUCING, MACHINES, BUCKETS, st.sampled_from([(1, False), (3, False), (2, True)]), RATES)
def test_late_updates_give_the_job_that_waits_where_weights_are_used(
    job: TrainingJob, machine: MachineKind, bucket: int, how: tuple[int, bool], rate: float
) -> None:
    parts, by_priority = how
    job = replace(job, machine=machine, bucket_bytes=bucket, parts=parts, by_priority=by_priority)
    wanted = training(replace(job, steps=STEPS, late=True))
    assert measured(changed(job, "overlap_update"), rate) == measured(wanted, rate)
    several = changed(replace(job, steps=STEPS), "overlap_update")
    assert measured(several, rate) == measured(wanted, rate)


@SOMETIMES
@given(REDUCING, MACHINES, BUCKETS, st.sampled_from([(1, False), (3, False), (2, True)]), RATES)
def test_early_updates_give_the_job_that_updates_as_buckets_arrive(
    job: TrainingJob, machine: MachineKind, bucket: int, how: tuple[int, bool], rate: float
) -> None:
    parts, by_priority = how
    job = replace(job, machine=machine, bucket_bytes=bucket, parts=parts, by_priority=by_priority)
    wanted = training(replace(job, early=True))
    assert measured(changed(job, "early_update"), rate) == measured(wanted, rate)


TOLD = st.sampled_from([1, 4 * MIB, 1000 * MIB])
"""Limits that the recorded buckets themselves tell, for whatever order of gradients."""


@OFTEN
@given(MACHINES, TOLD, st.integers(1, 5), st.integers(0, 4), RATES)
def test_weight_gradients_held_back_give_the_job_that_makes_them_last(
    machine: MachineKind, bucket: int, workers: int, first: int, rate: float
) -> None:
    job = TrainingJob(machine=machine, bucket_bytes=bucket, workers=workers)
    plain = training(job)
    made = changed(job, f"late_gradients(first={first})")
    again = parse(f"late_gradients(first={first})").transform(made)
    wanted = training(replace(job, held_back=tuple(range(first or job.layers))))
    assert measured(made, rate) == measured(wanted, rate) == measured(again, rate)
    assert worked(made) == worked(plain)


@SOMETIMES
@given(MACHINES, TOLD, st.sampled_from(["buckets", "partition", "priority", "late", "early"]))
def test_gradients_held_back_stand_before_whatever_changes_their_exchange(
    machine: MachineKind, bucket: int, other: str
) -> None:
    text, field = {
        "buckets": ("buckets(size_bytes=4194304)", {"bucket_bytes": 4 * MIB}),
        "partition": ("partition(parts=3)", {"parts": 3}),
        "priority": ("priority", {"by_priority": True}),
        "late": ("overlap_update", {"late": True}),
        "early": ("early_update", {"early": True}),
    }[other]
    job = TrainingJob(machine=machine, bucket_bytes=bucket, steps=STEPS)
    wanted = training(replace(job, held_back=tuple(range(job.layers)), **field))  # type: ignore[arg-type]
    assert measured(changed(job, "late_gradients", text)) == measured(wanted)


@SOMETIMES
@given(REDUCING, MACHINES, BUCKETS, st.sampled_from([(4, 2), (6, 3), (6, 2), (2, 2)]), RATES)
def test_an_exchange_host_by_host_gives_the_job_that_does_it_so(
    job: TrainingJob, machine: MachineKind, bucket: int, sizes: tuple[int, int], rate: float
) -> None:
    workers, on_host = sizes
    job = replace(job, machine=machine, bucket_bytes=bucket, workers=workers)
    wanted = training(replace(job, on_host=on_host))
    assert measured(changed(job, f"hierarchical(on_host={on_host})"), rate) == measured(
        wanted, rate
    )


@SOMETIMES
@given(REDUCING, MACHINES, BUCKETS, st.integers(1, 4), st.integers(1, 3))
def test_accumulated_gradients_give_the_job_of_as_many_passes_a_step(
    job: TrainingJob, machine: MachineKind, bucket: int, passes: int, steps: int
) -> None:
    job = replace(job, machine=machine, bucket_bytes=bucket, steps=steps)
    made = changed(job, f"accumulate(steps={passes})")
    assert measured(made) == measured(training(replace(job, passes=passes)))
    assert made.facts.samples == passes


@OFTEN
@given(REDUCING, MACHINES, BUCKETS, RATES)
def test_parameter_servers_give_the_job_that_pushes_and_pulls(
    job: TrainingJob, machine: MachineKind, bucket: int, rate: float
) -> None:
    job = replace(job, machine=machine, bucket_bytes=bucket)
    wanted = training(replace(job, exchange=ReplicaExchange.PARAMETER_SERVER))
    assert measured(changed(job, "parameter_server"), rate) == measured(wanted, rate)


@OFTEN
@given(SHAPES, MACHINES, BATCHES, RATES)
def test_another_batch_gives_the_job_of_such_a_batch(
    job: TrainingJob, machine: MachineKind, factor: float, rate: float
) -> None:
    job = replace(job, machine=machine)
    made = changed(job, f"batch(factor={factor})")
    assert measured(made, rate) == measured(training(replace(job, batch=factor)), rate)


CHANGES: Mapping[str, dict[str, Any]] = {
    "workers(count=4)": {"workers": 4},
    "buckets(size_bytes=3145728)": {"bucket_bytes": 3 * MIB},
    "batch(factor=2)": {"batch": 2.0},
    "partition(parts=3)": {"parts": 3},
    "parameter_server()": {"exchange": ReplicaExchange.PARAMETER_SERVER},
}


@OFTEN
@given(REDUCING, MACHINES, st.permutations(list(CHANGES)[:3]), st.booleans())
def test_all_changes_in_any_order_give_the_job_of_them_all(
    job: TrainingJob, machine: MachineKind, order: list[str], served: bool
) -> None:
    job = replace(job, machine=machine)
    texts = [*order, "parameter_server()"] if served else order
    wanted = replace(job, **{k: v for text in texts for k, v in CHANGES[text].items()})
    assert measured(changed(job, *texts)) == measured(training(wanted))


@OFTEN
@given(SHAPES, MACHINES, st.sampled_from(["workers(count=3)", "batch(factor=2)"]))
def test_scaling_one_kind_of_work_commutes_with_other_changes(
    job: TrainingJob, machine: MachineKind, other: str
) -> None:
    job = replace(job, machine=machine)
    for scale in (
        'scale(select="phase=update", factor=0.5)',
        'scale(select="kind=collective", factor=0.1)',
    ):
        assert measured(changed(job, scale, other)) == measured(changed(job, other, scale))


@OFTEN
@given(REDUCING, MACHINES, st.sampled_from(list(CHANGES)), st.integers(3, 5))
def test_a_change_of_the_typical_step_gives_the_steps_generated_that_way(
    job: TrainingJob, machine: MachineKind, text: str, steps: int
) -> None:
    job = replace(job, machine=machine)
    typical = condense(training(replace(job, steps=steps)))
    wanted = training(replace(job, steps=STEPS, **CHANGES[text]))
    assert measured(parse(text).transform(typical)) == measured(wanted)


@OFTEN
@given(SHAPES, MACHINES, st.integers(2, 5))
def test_the_typical_step_of_equal_steps_is_each_of_them(
    job: TrainingJob, machine: MachineKind, steps: int
) -> None:
    job = replace(job, machine=machine)
    typical = condense(training(replace(job, steps=steps)))
    assert measured(typical) == measured(training(replace(job, steps=STEPS)))


@pytest.mark.parametrize("text", ["buckets(size_bytes=1)", "parameter_server()"])
def test_what_has_no_buckets_cannot_change_them(text: str) -> None:
    job = TrainingJob(parallel=Parallel.FSDP2)
    with pytest.raises(GraphError, match="does not say which collectives reduce gradients"):
        changed(job, text)
    with pytest.raises(GraphError, match="does not say which collectives reduce gradients"):
        parse(text).transform(GraphBuilder(facts=Facts(world_size=2)).build())
