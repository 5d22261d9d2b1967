"""A search's plan for `apply`, and one that is priced anew for a job that has changed."""

from dataclasses import replace

import pytest

from paceline.cluster import Cluster, Link
from paceline.graph import Graph, Parameter
from paceline.predict import Question, predict
from paceline.search import Goal, planned, repriced, search
from paceline.strategies import Effect, StrategyError

GOAL = Goal(allow=Effect.LOSSY, strategies=("buckets", "bf16"))


def test_a_plan_holds_what_is_predicted_of_it_and_why(job: Graph, lan: Cluster) -> None:
    found = search(job, lan, Question(), GOAL)
    plan, full = planned(found, job, lan, Question()), predict(job, found.best.plan, lan)
    assert plan.strategies == found.best.plan
    assert plan.reasons == found.best.reasons
    assert plan.predicted is not None
    assert (plan.predicted.step_ns, plan.predicted.high_ns) == (full.step_ns, full.high_ns)
    assert plan.predicted.unchanged_ns == found.unchanged.batch_ns


def test_a_plan_is_priced_anew_for_another_cluster_alone(job: Graph, lan: Cluster) -> None:
    plan = planned(search(job, lan, Question(), GOAL), job, lan, Question())
    assert repriced(plan, job, lan, Question()) == (plan, ())
    faster = replace(lan, link=Link.both_ways(1e9))
    again, different = repriced(plan, job, faster, Question())
    assert different == ("cluster",)
    assert again.predicted is not None
    assert again.predicted.step_ns == predict(job, plan.strategies, faster).step_ns


def test_a_plan_for_another_model_is_refused_and_not_priced_anew(job: Graph, lan: Cluster) -> None:
    plan = planned(search(job, lan, Question(), GOAL), job, lan, Question())
    told = (*job.facts.parameters, Parameter("more", 4))
    other = replace(job, facts=replace(job.facts, parameters=told))
    with pytest.raises(StrategyError, match="made for the model"):
        repriced(plan, other, lan, Question())
