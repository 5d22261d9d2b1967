"""`workers`: recorded replicas repeated, and what joins them left for a cluster to price."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from paceline.errors import GraphError
from paceline.graph import UNPRICED, Axis, Graph, GraphBuilder, OpKind, Phase, check, select
from paceline.graph.synthetic import MachineKind, Parallel, TrainingJob, training
from paceline.strategies import parse
from paceline.strategies.workers import Workers

Recording = Callable[..., Graph]


def test_recorded_workers_are_repeated_in_turn_and_their_difference_stays(
    recording: Recording,
) -> None:
    graph = recording()
    slower = np.where(graph.ops.rank == 1, 2, 1) * graph.ops.dur_ns
    five = parse("workers(count=5)").transform(
        replace(graph, ops=replace(graph.ops, dur_ns=slower))
    )
    check(five)
    ops = five.ops
    work = np.bincount(ops.rank, np.where(ops.kind == OpKind.COLLECTIVE, 0, ops.dur_ns))
    assert work[0] == work[2] == work[4] == work[1] / 2 == work[3] / 2
    assert five.groups[0].ranks == (0, 1, 2, 3, 4)
    assert five.world_size == 5


def test_what_joins_replicas_is_unpriced_and_all_else_keeps_its_time(recording: Recording) -> None:
    graph = recording()
    made = parse("workers(count=3)").transform(graph)
    talks = made.ops.kind == OpKind.COLLECTIVE
    assert (made.ops.dur_ns[talks] == UNPRICED).all()
    assert set(made.ops.dur_ns[~talks]) == set(graph.ops.dur_ns[graph.ops.dur_ns != 1000])


def test_as_many_workers_as_recorded_change_nothing(recording: Recording) -> None:
    graph = recording()
    assert parse("workers(count=2)").transform(graph) is graph


def test_a_tensor_parallel_replica_keeps_its_inner_groups() -> None:
    job = TrainingJob(parallel=Parallel.TENSOR_DATA, tensor=2)
    made = parse("workers(count=3)").transform(training(job))
    groups = {group.ranks for group in made.groups if group.axis is Axis.TENSOR}
    assert groups == {(0, 1), (2, 3), (4, 5)}
    assert {g.ranks for g in made.groups if g.axis is Axis.DATA} == {(0, 2, 4), (1, 3, 5)}


def test_an_update_that_is_cut_among_the_workers_is_cut_anew() -> None:
    job = TrainingJob(parallel=Parallel.FSDP2, update_ns=1200)
    made = parse("workers(count=6)").transform(training(job))
    update = made.ops.dur_ns[made.ops.phase == Phase.UPDATE]
    assert set(update.tolist()) == {200}
    assert made.facts.update_shards == 6


def test_the_hosts_part_of_a_cut_update_stays_as_it_is() -> None:
    graph = training(TrainingJob(parallel=Parallel.FSDP2, update_ns=1200))
    hosts = graph.ops.phase == Phase.UPDATE
    kind = np.where(hosts, OpKind.HOST, graph.ops.kind).astype(np.uint8)
    made = parse("workers(count=6)").transform(replace(graph, ops=replace(graph.ops, kind=kind)))
    assert set(made.ops.dur_ns[made.ops.phase == Phase.UPDATE].tolist()) == {600}


def test_a_new_workers_drains_are_of_its_own_streams() -> None:
    made = parse("workers(count=3)").transform(training(TrainingJob(machine=MachineKind.GPU)))
    ranks = made.lanes.rank[made.drains.lane]
    assert ranks.tolist() == made.ops.rank[made.drains.op].tolist()
    assert set(ranks.tolist()) == {0, 1, 2}


def test_a_graph_without_replicas_is_refused() -> None:
    b = GraphBuilder()
    b.op("mm", b.lane(), 5)
    with pytest.raises(GraphError, match="no group of workers that share gradients"):
        parse("workers(count=2)").transform(b.build())


def test_no_workers_are_refused(recording: Recording) -> None:
    with pytest.raises(GraphError, match="0 workers were asked for; give 1 or more"):
        parse("workers(count=0)").transform(recording())


def test_a_part_of_a_job_is_refused(recording: Recording) -> None:
    graph = recording()
    with pytest.raises(GraphError, match="holds 2 of the job's 8 ranks"):
        parse("workers(count=4)").transform(
            replace(graph, facts=replace(graph.facts, world_size=8))
        )


def test_groups_that_are_not_spaced_evenly_are_refused() -> None:
    b = GraphBuilder()
    for rank in range(4):
        b.op("mm", b.lane(rank), 5)
    b.group("odd", (0, 1, 3), Axis.DATA)
    with pytest.raises(GraphError, match=r"not spaced evenly \(\[0, 1, 3\]"):
        parse("workers(count=4)").transform(b.build())


def test_each_worker_has_devices_of_its_own(recording: Recording) -> None:
    made = parse("workers(count=4)").transform(recording())
    assert len(made.devices) == 4
    assert len({device.host for device in made.devices}) == 4
    assert len(select(made, "rank=3")) == len(select(made, "rank=0"))


def test_worth_trying_are_twice_to_eight_times_the_replicas() -> None:
    graph = training(TrainingJob(workers=3))
    assert list(Workers.choices(graph)) == [Workers(6), Workers(12), Workers(24)]
