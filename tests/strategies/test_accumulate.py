"""`accumulate`: several passes a step, and times that compare with those of other batches."""

from pathlib import Path

import pytest

from paceline.cluster import Cluster, Device, Host, Link
from paceline.errors import GraphError
from paceline.graph import OpKind, Phase, check, load_graph, save_graph
from paceline.graph.synthetic import TrainingJob, training
from paceline.predict import predict
from paceline.strategies import StrategyError, parse, transformed

LAN = Cluster(tuple(Host(f"h{i}", Device("core")) for i in range(2)), Link.both_ways(2e9))


def test_a_step_has_more_passes_and_one_exchange_and_update() -> None:
    before, made = (training(TrainingJob()), training(TrainingJob()))
    made = check(parse("accumulate(steps=3)").transform(made))
    for phase, times in ((Phase.FORWARD, 3), (Phase.UPDATE, 1), (Phase.COMMUNICATION, 1)):
        counts = [int((graph.ops.phase == phase).sum()) for graph in (before, made)]
        assert counts[1] == times * counts[0], phase
    assert (made.ops.kind == OpKind.WAIT).sum() == (before.ops.kind == OpKind.WAIT).sum()


def test_a_recorded_batch_takes_less_time_where_the_exchange_was_waited_for() -> None:
    graph = training(TrainingJob())
    once, fourth = (predict(graph, plan, LAN) for plan in ([], ["accumulate(steps=4)"]))
    assert once.batch_ns == once.step_ns
    assert fourth.batch_ns == fourth.step_ns / 4
    assert fourth.batch_ns < once.batch_ns < fourth.step_ns
    assert "for a recorded batch" in str(fourth)
    assert "for a recorded batch" not in str(once)


def test_samples_multiply_and_more_workers_leave_a_workers_as_they_are(tmp_path: Path) -> None:
    plan = [parse(t) for t in ("batch(factor=0.5)", "accumulate(steps=6)", "workers(count=4)")]
    made = transformed(training(TrainingJob()), plan)
    assert made.facts.samples == 3.0
    assert load_graph(save_graph(made, tmp_path / "graph")).facts.samples == 3.0


def test_one_step_to_an_exchange_is_the_job_as_it_is() -> None:
    graph = training(TrainingJob())
    made = parse("accumulate(steps=1)").transform(graph)
    assert len(made) == len(graph)
    assert predict(made, [], LAN).step_ns == predict(graph, [], LAN).step_ns


def test_what_is_exchanged_in_another_form_is_accumulated_before() -> None:
    packed, accumulate = parse("bf16"), parse("accumulate(steps=2)")
    with pytest.raises(StrategyError, match="bf16 builds on what accumulate"):
        transformed(training(TrainingJob()), [packed, accumulate])
    with pytest.raises(GraphError, match="accumulate before other changes of the exchange"):
        accumulate.transform(packed.transform(training(TrainingJob())))


def test_no_steps_to_an_exchange_are_refused() -> None:
    with pytest.raises(StrategyError, match="give 1 or more"):
        parse("accumulate(steps=0)")
    with pytest.raises(StrategyError, match="give 0 to 1"):
        parse("accumulate(steps=2, rate_power=2)")
