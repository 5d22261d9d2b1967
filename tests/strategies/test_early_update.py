"""`early_update`: each bucket's update behind its own exchange, beside the backward pass."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from paceline.cluster import Cluster, Device, Host, Link
from paceline.errors import GraphError
from paceline.graph import Graph, OpKind, Phase, check
from paceline.graph.early_update import LANE
from paceline.graph.synthetic import MachineKind, TrainingJob, training
from paceline.predict import predict
from paceline.strategies import Plan, StrategyError, parse, transformed

JOB = TrainingJob(layers=3, bucket_bytes=1)
LAN = Cluster(tuple(Host(f"h{i}", Device("core")) for i in range(2)), Link.both_ways(2e9))


def updates(graph: Graph, rank: int = 0) -> list[int]:
    """The ops on the rank's lane of updates."""
    lane = next(
        i for i, name in enumerate(graph.lanes.name) if name == LANE and graph.lanes.rank[i] == rank
    )
    return np.flatnonzero(graph.ops.lane == lane).tolist()


@pytest.mark.parametrize("machine", MachineKind)
def test_each_bucket_is_updated_behind_its_own_exchange(machine: MachineKind) -> None:
    made = check(parse("early_update").transform(training(replace(JOB, machine=machine))))
    found = updates(made)
    assert len(found) == 6
    brought = [made.deps.of(op).tolist() for op in found]
    assert all(len(each) == 1 for each in brought)
    assert all(made.ops.kind[src] == OpKind.COLLECTIVE for each in brought for src in each)
    assert len({src for each in brought for src in each}) == 6


def test_updates_of_buckets_take_together_what_the_whole_took_and_it_takes_nothing() -> None:
    made = parse("early_update").transform(training(JOB))
    all_of_rank = (made.ops.phase == Phase.UPDATE) & (made.ops.rank == 0)
    assert made.ops.dur_ns[updates(made)].sum() == JOB.update_ns
    assert made.ops.dur_ns[all_of_rank].sum() == JOB.update_ns


def test_what_waited_for_a_bucket_waits_for_its_update() -> None:
    plain, made = training(JOB), parse("early_update").transform(training(JOB))
    waits = made.ops.kind == OpKind.WAIT
    waited = {src for op in np.flatnonzero(waits).tolist() for src in made.deps.of(op).tolist()}
    assert waited == {*updates(made, 0), *updates(made, 1)}
    assert waits.sum() == (plain.ops.kind == OpKind.WAIT).sum()


def test_the_update_hides_behind_the_exchange_but_for_the_last_buckets() -> None:
    job = replace(JOB, update_ns=40_000_000)
    plain, early = (predict(training(job), plan, LAN).step_ns for plan in ([], ["early_update"]))
    assert early < plain
    assert plain - early < job.update_ns


def test_a_job_of_one_bucket_gains_nothing() -> None:
    job = replace(JOB, bucket_bytes=1 << 30)
    plain, early = (predict(training(job), plan, LAN).step_ns for plan in ([], ["early_update"]))
    assert early == plain


def test_a_packed_bucket_in_parts_is_updated_once_all_are_unpacked() -> None:
    plan = [parse(text) for text in ("int8", "partition(parts=3)", "early_update")]
    made = check(transformed(training(JOB), plan))
    names = [[made[src].name for src in made.deps.of(op).tolist()] for op in updates(made)]
    assert names == [["add up int8"]] * 6


@pytest.mark.parametrize("codec", ["topk(layerwise=True)", "count_sketch"])
def test_a_bucket_in_pieces_or_rounds_is_updated_behind_the_last(codec: str) -> None:
    plan = [parse(codec), parse("early_update")]
    made = check(transformed(training(replace(JOB, bucket_bytes=1 << 30)), plan))
    unpacks = [op for op, one in enumerate(made) if one.rank == 0 and one.name[:6] == "unpack"]
    assert [made.deps.of(op).tolist() for op in updates(made)] == [unpacks[-1:]]


def test_updates_are_made_in_one_way() -> None:
    with pytest.raises(StrategyError, match="overlap_update"):
        Plan((parse("early_update"), parse("overlap_update")))


def test_without_gradients_nothing_is_updated_early(recording: Callable[..., Graph]) -> None:
    with pytest.raises(GraphError, match="nothing can be updated as they arrive"):
        parse("early_update").transform(recording(told=False))


def test_without_an_update_there_is_none_to_make_earlier() -> None:
    graph = training(JOB)
    phase = np.where(graph.ops.phase == Phase.UPDATE, Phase.NONE, graph.ops.phase).astype(np.uint8)
    with pytest.raises(GraphError, match="does not show which ops update the parameters"):
        parse("early_update").transform(replace(graph, ops=replace(graph.ops, phase=phase)))
