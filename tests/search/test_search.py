"""Searches of a small job: never worse than leaving it alone, and just what `predict` says."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paceline.cluster import Cluster, Host, Link
from paceline.cluster.files import device
from paceline.graph import Graph, load_graph
from paceline.graph.scaled import scaled
from paceline.graph.synthetic import Parallel, TrainingJob, training
from paceline.predict import Candidates, PredictError, Question, predict
from paceline.search import SEARCHERS, Aim, Ended, Goal, SearchError, search, searching
from paceline.search.judge import Judge
from paceline.search.score import Score
from paceline.search.settle import LITTLE
from paceline.search.space import Space, space_of
from paceline.search.trials import Trials
from paceline.strategies import Effect, kind_of, name_of
from paceline.strategies.uneven_batches import UnevenBatches

RECORDED = Path(__file__).parents[2] / "benchmarks" / "results" / "strategies"
FEW = ("buckets", "fp16", "partition", "priority")
SMALL = Goal(allow=Effect.LOSSY, strategies=FEW)
WITHOUT_PACKAGES = sorted(set(SEARCHERS) - {"optuna"})


def around(rate: float, layers: int, workers: int = 2) -> tuple[Graph, Cluster]:
    hosts = tuple(Host(f"h{i}", device("epyc-2c")) for i in range(workers))
    made = training(TrainingJob(Parallel.DDP, workers=workers, steps=3, layers=layers))
    return made, Cluster(hosts, Link.both_ways(rate))


@settings(max_examples=6, deadline=None)
@given(rate=st.sampled_from((1e7, 1e8, 1e9)), layers=st.integers(1, 5), seed=st.integers(0, 3))
def test_a_guided_search_is_never_worse_than_leaving_the_job_alone(
    rate: float, layers: int, seed: int
) -> None:
    graph, lan = around(rate, layers)
    found = search(graph, lan, Question(), replace(SMALL, seed=seed))
    assert found.best.batch_ns <= found.unchanged.batch_ns
    assert found.best.step_ns == predict(graph, found.best.plan, lan).step_ns


@pytest.mark.parametrize("rate", [1e7, 1e8, 1e9])
def test_every_part_of_the_best_plan_brings_more_than_a_little(rate: float) -> None:
    graph, lan = around(rate, 4)
    found = search(graph, lan, Question(), replace(SMALL, strategies=(*FEW, "overlap_update")))
    best = found.best
    assert best.plan
    for part in best.plan:
        without = predict(graph, [each for each in best.plan if each is not part], lan)
        assert without.batch_ns > best.batch_ns * (1 + LITTLE), part


@pytest.mark.parametrize("searcher", WITHOUT_PACKAGES)
def test_the_best_plan_takes_as_long_as_its_prediction(
    searcher: str, job: Graph, lan: Cluster
) -> None:
    found = search(job, lan, Question(), SMALL, searcher)
    full = predict(job, found.best.plan, lan)
    assert (found.best.step_ns, found.best.low_ns) == (full.step_ns, full.low_ns)
    assert found.unchanged.step_ns == predict(job, (), lan).step_ns


def test_another_model_is_searched_only_where_it_is_named(job: Graph, lan: Cluster) -> None:
    names = ("factored", "fp16")
    asked = Candidates(job, lan, Question())
    every = space_of(asked, Goal(allow=Effect.LOSSY), live_only=True)
    named = space_of(asked, Goal(allow=Effect.LOSSY, strategies=names), live_only=True)
    tried = {name_of(type(setting)) for setting, _ in (*every.refused, *named.refused)}
    assert not any(kind_of(name).remakes for name in every.options)
    assert "factored" in {*named.options, *tried}


@pytest.mark.parametrize("searcher", WITHOUT_PACKAGES)
def test_equal_seeds_give_equal_plans(searcher: str, job: Graph, lan: Cluster) -> None:
    first, second = (search(job, lan, Question(), SMALL, searcher) for _ in range(2))
    assert (first.best, first.pareto, first.tried) == (second.best, second.pareto, second.tried)


@pytest.mark.parametrize("searcher", sorted({*WITHOUT_PACKAGES} - {"exhaustive"}))
def test_what_is_found_is_within_a_hundredth_of_the_best_of_all(
    searcher: str, job: Graph, lan: Cluster
) -> None:
    found = search(job, lan, Question(), SMALL, searcher)
    best = search(job, lan, Question(), SMALL, "exhaustive").best
    assert found.best.batch_ns <= 1.01 * best.batch_ns


@pytest.mark.needs("optuna")
def test_optuna_finds_a_plan_and_the_same_one_again(
    job: Graph, lan: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("paceline.search.optuna_search.TRIALS", 30)
    first, second = (search(job, lan, Question(), SMALL, "optuna") for _ in range(2))
    assert first.best == second.best
    assert first.best.batch_ns < first.unchanged.batch_ns


def test_fsdp2_in_place_of_ddp_is_told_beside_the_job_as_it_is(
    recorded: Graph, lan: Cluster
) -> None:
    found = search(recorded, lan, Question(), Goal(strategies=("buckets",)))
    assert found.sharded is not None
    assert found.sharded.step_ns == predict(recorded, ("fully_sharded",), lan).step_ns
    assert found.sharded.memory_bytes is not None
    assert found.unchanged.memory_bytes is not None
    assert found.sharded.memory_bytes < found.unchanged.memory_bytes
    cut = training(TrainingJob(Parallel.FSDP2, workers=2, steps=3))
    assert search(cut, lan, Question(), Goal(strategies=("keep_gathered",))).sharded is None


def test_what_is_more_than_allowed_is_not_in_a_plan(job: Graph, lan: Cluster) -> None:
    found = search(job, lan, Question(), Goal(allow=Effect.EXACT, strategies=FEW))
    assert found.best.effect is Effect.EXACT
    assert all(each.effect is Effect.EXACT for each in found.pareto)


def test_what_only_frees_memory_is_searched_where_memory_counts(
    recorded: Graph, lan: Cluster
) -> None:
    job = Candidates(recorded, lan, Question(), coarse=True, memory=False)
    free = space_of(job, Goal(), live_only=True)
    reasons = {name_of(type(setting)): why for setting, why in free.refused}
    assert "checkpoint" not in free.options
    assert "--memory-limit" in reasons["checkpoint"]
    tight = Goal(memory_limit_bytes=10**9)
    remembering = Candidates(recorded, lan, Question(), coarse=True, memory=tight.needs_memory)
    assert "checkpoint" in space_of(remembering, tight, live_only=True).options


@pytest.mark.parametrize("aim", [Aim.TIME, Aim.MEMORY])
def test_what_is_offered_is_taken_by_itself(aim: Aim, lan: Cluster) -> None:
    """A space holds nothing that is refused as soon as it is scored."""
    goal = Goal(allow=Effect.LOSSY, aim=aim)
    graph = load_graph(RECORDED / "resnet20")
    job = Candidates(graph, lan, Question(), coarse=True, memory=goal.needs_memory)
    space = space_of(job, goal, live_only=True)
    assert space.options
    for setting in space.settings:
        assert isinstance(Judge(job).score((setting,)), Score), str(setting)


def test_a_named_strategy_can_be_left_out(job: Graph, lan: Cluster) -> None:
    found = search(job, lan, Question(), replace(SMALL, without=("fp16",)))
    assert "fp16" not in {name_of(type(part)) for part in found.best.plan}


def test_fewer_bytes_can_be_the_aim(job: Graph, lan: Cluster) -> None:
    found = search(job, lan, Question(), replace(SMALL, aim=Aim.BYTES))
    assert found.best.sends < 0.51 * found.unchanged.sends


def test_a_plan_that_shares_a_hosts_memory_is_refused_on_two_hosts(
    job: Graph, lan: Cluster
) -> None:
    found = search(job, lan, Question(), Goal(strategies=("fused_step",)))
    assert found.best.plan == ()
    reasons = {str(part): why for part, why in found.refused}
    assert "share one host's memory" in reasons["fused_step"]


def test_without_a_cluster_what_has_no_recorded_time_is_refused(job: Graph) -> None:
    found = search(job, None, Question(), Goal(strategies=("buckets", "overlap_update")))
    assert found.best.step_ns <= found.unchanged.step_ns
    assert any("give a cluster" in why for _, why in found.refused)


def test_the_best_plan_says_of_each_part_what_it_does(job: Graph, lan: Cluster) -> None:
    found = search(job, lan, Question(), SMALL)
    assert [line.split(":")[0] for line in found.best.reasons] == list(map(str, found.best.plan))
    assert "off the exchange" in " ".join(found.best.reasons)
    kept = search(job, lan, Question(), Goal(strategies=("zero1",)))
    assert kept.best.reasons == (
        "nothing that was tried makes it better, so the job stays as it is",
    )


def test_a_limit_that_nothing_holds_names_the_category_and_the_smallest_peak(
    recorded: Graph, job: Graph, lan: Cluster
) -> None:
    goal = Goal(strategies=("zero1", "checkpoint"), memory_limit_bytes=10_000_000)
    told = r"smallest peak is [\d,]+ bytes .* of which \w+ are the .* FSDP2 .* holds [\d,]+ bytes"
    with pytest.raises(SearchError, match=told):
        search(recorded, lan, Question(), goal)
    with pytest.raises(PredictError, match="does not tell what a rank holds"):
        search(job, lan, Question(), goal)


def test_a_plan_stays_within_the_limit_even_where_it_is_slower(
    recorded: Graph, lan: Cluster
) -> None:
    goal = Goal(strategies=("buckets", "zero1"))
    free = search(recorded, lan, Question(), goal).best
    assert free.memory_bytes is not None
    tight = search(
        recorded, lan, Question(), replace(goal, memory_limit_bytes=free.memory_bytes - 1)
    ).best
    assert tight.memory_bytes is not None
    assert tight.memory_bytes < free.memory_bytes
    assert tight.batch_ns > free.batch_ns


def test_a_spent_budget_keeps_what_was_found(job: Graph, lan: Cluster) -> None:
    found = search(job, lan, Question(), replace(SMALL, budget_s=1e-6))
    assert found.ended is Ended.BUDGET
    assert found.tried >= 1
    assert found.best.batch_ns <= found.unchanged.batch_ns


def test_an_interrupt_keeps_what_was_found(
    job: Graph, lan: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stopped(space: Space, trials: Trials, job: Candidates) -> None:
        trials.ask((setting,) for setting in space.settings)
        raise KeyboardInterrupt

    monkeypatch.setattr(searching, "SEARCHERS", {"guided": stopped})
    found = search(job, lan, Question(), SMALL)
    assert found.ended is Ended.INTERRUPTED
    assert len(found.best.plan) == 1
    assert found.best.batch_ns < found.unchanged.batch_ns


def test_like_ranks_stand_once_and_give_the_same_step() -> None:
    graph, lan = around(1e8, 3, workers=16)
    coarse = Candidates(graph, lan, Question(), coarse=True)
    assert len(np.unique(coarse.changed(()).ops.rank)) == 1
    found = search(graph, lan, Question(), SMALL)
    assert found.best.step_ns == predict(graph, found.best.plan, lan).step_ns


def test_ranks_that_are_alike_stand_for_themselves_where_a_change_tells_them_apart() -> None:
    graph, lan = around(1e8, 3, workers=4)
    coarse = Candidates(graph, lan, Question(), coarse=True, memory=False)
    even, uneven = ((UnevenBatches(shares),) for shares in ((1.0,) * 4, (2.0, 1.0, 1.0, 1.0)))
    assert len(np.unique(coarse.changed(even).ops.rank)) == 1
    assert len(np.unique(coarse.changed(uneven).ops.rank)) == 4
    for plan in (even, uneven):
        assert coarse.step_ns(plan) == predict(graph, plan, lan).step_ns
        assert list(Judge(coarse).scores([plan])) == [Judge(coarse).score(plan)]


def test_shares_of_a_batch_are_proposed_by_the_work_of_all_ranks() -> None:
    graph, lan = around(1e8, 3, workers=4)
    slow = np.isin(graph.ops.rank, (1, 3)) & (graph.ops.dur_ns > 0)
    proposed = [
        space_of(Candidates(each, lan, Question(), coarse=True), Goal(), live_only=True).options
        for each in (graph, scaled(graph, slow, 2.0))
    ]
    assert "uneven_batches" not in proposed[0]
    (setting,) = proposed[1]["uneven_batches"]
    assert isinstance(setting, UnevenBatches)
    assert setting.shares[:2] == setting.shares[2:]
    assert setting.shares[0] > setting.shares[1]


def test_an_unknown_searcher_or_strategy_names_the_known_ones(job: Graph, lan: Cluster) -> None:
    with pytest.raises(SearchError, match="guided"):
        search(job, lan, Question(), Goal(), "best")
    with pytest.raises(Exception, match="did you mean buckets"):
        Goal(strategies=("bucket",))
    with pytest.raises(SearchError, match="too many"):
        search(job, lan, Question(), Goal(allow=Effect.RELAXED), "exhaustive")
