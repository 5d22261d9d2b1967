"""Weights exchanged now and then: a changed job is the job generated so, to the nanosecond."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from paceline.cluster import Cluster, Device, Host, Link
from paceline.cost import GLOO, Rates, prices
from paceline.errors import GraphError
from paceline.graph import UNPRICED, DepKind, Graph, OpKind, check, select
from paceline.graph.condense import condense
from paceline.graph.condense.waits import LinkedStep
from paceline.graph.links import Links
from paceline.graph.one_lane import on_one_lane
from paceline.graph.rounds import PERIODS, fragments_of
from paceline.graph.rounds.seats import apart
from paceline.graph.synthetic import MachineKind, Parallel, TrainingJob, training
from paceline.predict import Candidates, PredictError, Question, predict
from paceline.predict.classes import by_class, step_ns
from paceline.replay import replay
from paceline.replay.hosts import SharedHosts
from paceline.strategies import Plan, Strategy, StrategyError, parse, transformed
from paceline.strategies.seldom import Seldom

SOME = st.sampled_from(
    [
        "local_sgd(period=1)",
        "local_sgd(period=3, states=1)",
        "overlap_local_sgd(period=2)",
        "diloco(period=4)",
        "diloco(period=4, fragments=2, delay=1)",
        "diloco(period=3, fragments=2, mixing=0.5)",
    ]
)
SHAPES = st.sampled_from(
    [
        TrainingJob(),
        TrainingJob(parallel=Parallel.TENSOR_DATA, tensor=2),
        TrainingJob(parallel=Parallel.PIPELINE_DATA, stages=2, micro_batches=3, layers=2),
    ]
)
SLOW, FAST = 1e8, 2e10
FEW = settings(deadline=None, max_examples=12, suppress_health_check=[HealthCheck.too_slow])


def cluster(workers: int, rate: float = SLOW) -> Cluster:
    hosts = tuple(Host(f"h{i}", Device("core", memory_bytes_per_s=1e10)) for i in range(workers))
    return Cluster(hosts, Link.both_ways(rate))


def measured(graph: Graph, rate: float) -> tuple[int, dict[str, int]]:
    """The mean step on such links, and what each class of work sums up to."""
    laid = on_one_lane(check(graph))
    found = prices(laid, cluster(laid.world_size, rate), Rates(library=GLOO))
    timeline = replay(laid, prices=found.dur_ns)
    return step_ns(timeline), by_class(timeline)


def seldom(text: str) -> Seldom:
    found = parse(text)
    assert isinstance(found, Seldom)
    return found


@FEW
@given(SHAPES, st.sampled_from(MachineKind), SOME, st.sampled_from([SLOW, FAST]), st.booleans())
def test_rounds_of_weights_give_the_job_generated_with_them(
    job: TrainingJob, machine: MachineKind, text: str, rate: float, recorded: bool
) -> None:
    change, job = seldom(text), replace(job, machine=machine)
    rounds = change.rounds()
    wanted = training(replace(job, rounds=rounds, steps=PERIODS * rounds.period))
    source = condense(training(replace(job, steps=4))) if recorded else training(job)
    assert measured(change.transform(source), rate) == measured(wanted, rate)


@FEW
@given(st.sampled_from(MachineKind), SOME, st.permutations(["workers(count=3)", "batch(factor=2)"]))
def test_other_changes_before_and_behind_give_the_job_of_them_all(
    machine: MachineKind, text: str, others: list[str]
) -> None:
    job = TrainingJob(machine=machine, bucket_bytes=2 << 20)
    texts = ["buckets(size_bytes=5000000)", others[0], text, others[1]]
    made = transformed(training(job), map(parse, texts))
    rounds = seldom(text).rounds()
    wanted = replace(job, bucket_bytes=5_000_000, workers=3, batch=2.0, rounds=rounds)
    steps = PERIODS * rounds.period
    assert measured(made, SLOW) == measured(training(replace(wanted, steps=steps)), SLOW)


def step_of(recording: Callable[..., Graph], text: str, talk: int, work: int = 0) -> int:
    """The mean step of the drawn recording where an exchange takes `talk`, and a pass `work`."""
    made = check(parse(text).transform(recording()))
    talks = made.ops.kind == OpKind.COLLECTIVE
    dur = np.where(made.ops.dur_ns == UNPRICED, np.where(talks, talk, work), made.ops.dur_ns)
    return step_ns(replay(made, prices=dur))


def test_local_sgd_waits_once_a_period(recording: Callable[..., Graph], drawn: object) -> None:
    alone = drawn.work  # type: ignore[attr-defined]
    assert step_of(recording, "local_sgd(period=4)", talk=1000, work=6) == alone + (1000 + 12) // 4


def test_overlap_hides_what_a_period_of_steps_takes_and_waits_for_the_rest(
    recording: Callable[..., Graph], drawn: object
) -> None:
    alone = drawn.work  # type: ignore[attr-defined]
    change = "overlap_local_sgd(period=4)"
    assert step_of(recording, change, talk=4 * alone) == alone
    assert step_of(recording, change, talk=4 * alone + 400) == alone + 100
    assert step_of(recording, change, talk=0, work=8) == alone + 4


def test_a_period_ends_with_its_work_and_not_with_the_exchange_under_way(
    recording: Callable[..., Graph], drawn: object
) -> None:
    """Each worker has a core, of which the exchange wants 0.8 for two steps. Beside work it gets a
    half, and takes longer than the last one, which has nothing beside it. Nothing of the core is
    lost: four steps and the exchange's processor time."""
    alone = drawn.work  # type: ignore[attr-defined]
    made = check(parse("overlap_local_sgd(period=4)").transform(recording()))
    talks = made.ops.kind == OpKind.COLLECTIVE
    dur = np.where(made.ops.dur_ns == UNPRICED, np.where(talks, 2 * alone, 0), made.ops.dur_ns)
    hosts = SharedHosts((0, 1), (1.0, 1.0), np.where(talks, 8 * alone // 5, 0))
    step = step_ns(replay(made, prices=dur, hosts=hosts))
    assert step == pytest.approx((4 + 1.6) / 4 * alone, rel=0.01)


def test_fragments_travel_in_turn_and_each_is_waited_for_behind_its_delay(
    recording: Callable[..., Graph], drawn: object
) -> None:
    alone = drawn.work  # type: ignore[attr-defined]
    change = "diloco(period=4, fragments=2, delay=1)"
    made = parse(change).transform(recording())
    talks = np.flatnonzero((made.ops.kind == OpKind.COLLECTIVE) & (made.ops.rank == 0))
    assert made.ops.size_bytes[talks].tolist() == [600, 400] * PERIODS
    assert made.ops.step[talks].tolist() == [1, 3, 5, 7, 9, 11]
    assert step_of(recording, change, talk=alone) == alone
    assert step_of(recording, change, talk=alone + 100) == alone + 50


def test_what_a_step_needs_of_the_one_before_it_still_needs(
    recording: Callable[..., Graph],
) -> None:
    graph = recording()
    first, last = (int(select(graph, f"rank=0,name={name}")[0]) for name in ("addmm", "sgd"))
    before = Links.all_of(np.array([first]), np.array([last]), DepKind.STEP)
    alone, _ = apart(LinkedStep(graph, before), 1)
    assert len(alone.graph) < len(graph)
    names = [alone.graph[int(op)].name for op in (*alone.before.op, *alone.before.src)]
    assert names == ["addmm", "sgd"]


def test_states_travel_beside_the_weights(recording: Callable[..., Graph]) -> None:
    made = parse("local_sgd(period=2, states=2)").transform(recording())
    talks = (made.ops.kind == OpKind.COLLECTIVE) & (made.ops.rank == 0)
    assert made.ops.size_bytes[talks].tolist() == [3000] * PERIODS


@given(st.lists(st.integers(1, 1000), min_size=5, max_size=30), st.integers(1, 5))
def test_fragments_hold_every_parameter_once_in_order(sizes: list[int], count: int) -> None:
    parts = fragments_of(sizes, count)
    assert len(parts) == count
    assert [p for part in parts for p in part] == list(range(len(sizes)))
    most = sum(sizes) / count + max(sizes)
    assert all(0 < sum(sizes[p] for p in part[:-1]) + 1 <= most for part in parts)


def test_more_fragments_than_parameters_are_refused() -> None:
    with pytest.raises(GraphError, match="ask for fewer fragments"):
        fragments_of([1, 1000], 3)


@pytest.mark.parametrize("text", ["local_sgd(period=3)", "overlap_local_sgd(period=2)"])
def test_a_candidate_takes_as_long_as_its_prediction(text: str) -> None:
    job, plan = training(TrainingJob(steps=4)), [parse("workers(count=3)"), parse(text)]
    found = Candidates(job, cluster(2), Question()).step_ns(plan)
    made = predict(job, plan, cluster(2))
    assert found == made.step_ns
    assert made.by_class["communication"] < predict(job, plan[:1], cluster(2)).step_ns


def test_a_period_of_steps_has_no_draws() -> None:
    job = training(TrainingJob(steps=4, jitter=0.1))
    with pytest.raises(PredictError, match="repeats itself every 3 steps"):
        predict(job, ["local_sgd(period=3)"], cluster(2), Question(draws=5))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("local_sgd(period=0)", "give 1 step or more"),
        ("overlap_local_sgd(pullback=0.0)", "a pull-back is above 0"),
        ("diloco(period=4, fragments=2, delay=3)", "a delay is 0 to 2"),
        ("diloco(mixing=1.0)", "the mixing below 1"),
    ],
)
def test_settings_that_make_no_sense_are_refused(text: str, said: str) -> None:
    with pytest.raises(StrategyError, match=said):
        parse(text)


def test_jobs_whose_ranks_cannot_train_alone_are_refused(
    recording: Callable[..., Graph],
) -> None:
    graph = recording()
    cut = replace(graph, facts=replace(graph.facts, update_shards=2))
    assert "ranks that train alone must update all" in str(parse("local_sgd").refusal(cut))
    assert "does not say which" in str(parse("local_sgd").refusal(recording(told=False)))
    assert "this job has one worker" in str(parse("diloco").refusal(recording(1)))


def test_one_way_of_training_alone_excludes_the_others_and_codecs() -> None:
    for other in ("diloco", "bf16", "parameter_server"):
        plan: tuple[Strategy, ...] = (parse("local_sgd"), parse(other))
        with pytest.raises(StrategyError, match="cannot stand in one plan"):
            Plan(plan)
