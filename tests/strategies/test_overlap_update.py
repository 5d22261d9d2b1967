"""`overlap_update`: what the next step waits for, and where."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from paceline.cluster import Cluster, Device, Host, Link
from paceline.errors import GraphError
from paceline.graph import NONE, Graph, OpKind, Phase, check
from paceline.graph.late_update import shares
from paceline.graph.synthetic import TrainingJob, training
from paceline.predict import predict
from paceline.predict.candidates import Candidates
from paceline.predict.prediction import Question
from paceline.strategies import parse, transformed

JOB = TrainingJob(layers=3, bucket_bytes=1, steps=3)
LAN = Cluster(tuple(Host(f"h{i}", Device("core")) for i in range(2)), Link.both_ways(2e9))


def test_each_layer_waits_for_its_own_weights_and_updates_them() -> None:
    made = check(parse("overlap_update").transform(training(JOB)))
    second = (made.ops.rank == 0) & (made.ops.step == 1) & (made.lanes.kind[made.ops.lane] == 0)
    shown = [made[op] for op in np.flatnonzero(second).tolist()]
    phases = [op.phase.name for op in shown if op.kind is OpKind.COMPUTE][:9]
    assert phases == ["UPDATE", "UPDATE", "FORWARD"] * 3
    waits = [op for op in shown if op.kind is OpKind.WAIT and op.deps]
    assert len(waits) == 6
    assert all(made[src].kind is OpKind.COLLECTIVE for op in waits for src in op.deps)
    assert all(made.ops.step[src] == 0 for op in waits for src in op.deps)


def test_updates_of_buckets_take_together_what_the_whole_took() -> None:
    made = parse("overlap_update").transform(training(JOB))
    update = (made.ops.phase == Phase.UPDATE) & (made.ops.step == 1) & (made.ops.rank == 0)
    assert made.ops.dur_ns[update].sum() == JOB.update_ns
    assert shares(10, [1, 1, 1]) == [3, 4, 3]
    assert sum(shares(7, [5, 0, 2])) == 7


def test_what_is_exchanged_hides_behind_the_next_forward_pass() -> None:
    graph = training(JOB)
    plain = predict(graph, [], LAN)
    late = predict(graph, ["overlap_update"], LAN)
    assert late.step_ns < plain.step_ns
    assert late.by_class["exposed"] < plain.by_class["exposed"]


@pytest.mark.parametrize("codec", ["topk(layerwise=True)", "count_sketch"])
def test_a_bucket_in_pieces_or_rounds_is_waited_for_to_the_last(codec: str) -> None:
    plan = [parse(codec), parse("overlap_update")]
    made = check(transformed(training(replace(JOB, bucket_bytes=1 << 30)), plan))
    ops, name = made.ops, np.array(made.names)[made.ops.name]
    unpacks = np.flatnonzero(np.char.startswith(name, "unpack")).tolist()
    last = {(ops.rank[op], ops.step[op]): op for op in unpacks}
    waits = [op for op in np.flatnonzero(ops.kind == OpKind.WAIT).tolist() if len(made.deps.of(op))]
    assert len(waits) == 4  # of both ranks, in all steps but the first
    for op in waits:
        assert made.deps.of(op).tolist() == [last[ops.rank[op], ops.step[op] - 1]]


def test_a_job_of_one_step_is_repeated_for_it_has_no_next() -> None:
    one, three = (training(replace(JOB, steps=steps)) for steps in (1, 3))
    steps = [parse("overlap_update").transform(graph).ops.step.max() for graph in (one, three)]
    assert steps == [2, 2]


def test_many_candidates_find_the_step_that_a_prediction_finds() -> None:
    graph = training(JOB)
    plan = [parse("buckets(size_bytes=4194304)"), parse("overlap_update")]
    found = Candidates(graph, LAN, Question()).step_ns(plan)
    assert found == predict(graph, plan, LAN).step_ns


def test_without_layers_it_is_not_known_when_a_parameter_is_needed() -> None:
    graph = training(JOB)
    bare = replace(graph, ops=replace(graph.ops, layer=np.full(len(graph), NONE, np.int32)))
    with pytest.raises(GraphError, match="which op of the forward pass belongs to which layer"):
        parse("overlap_update").transform(bare)


def test_without_gradients_nothing_is_updated_late(recording: Callable[..., Graph]) -> None:
    with pytest.raises(GraphError, match="nothing can be updated as they arrive"):
        parse("overlap_update").transform(recording(told=False))


def test_a_packed_bucket_in_parts_is_updated_once_it_is_unpacked() -> None:
    plan = [parse(text) for text in ("int8", "partition(parts=3)", "overlap_update")]
    made = check(transformed(training(JOB), plan))
    waits = np.flatnonzero((made.ops.kind == OpKind.WAIT) & (made.ops.step == 2))
    waited = [made[src].name for op in waits.tolist() for src in made.deps.of(op).tolist()]
    assert waited == ["add up int8"] * 12
