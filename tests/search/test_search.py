"""Searches of a small job: never worse than leaving it alone, and just what `predict` says."""

import pytest

from paceline.cluster import Cluster, Device, Host, Link
from paceline.graph.synthetic import Parallel, TrainingJob, training
from paceline.predict import Question, predict
from paceline.search import SEARCHERS, Goal, SearchError, search
from paceline.strategies import Effect

JOB = training(TrainingJob(Parallel.DDP, workers=2, steps=3))
LAN = Cluster(tuple(Host(f"h{i}", Device("core")) for i in range(2)), Link.both_ways(5e7))
FEW = ("buckets", "fp16", "partition", "priority")


@pytest.mark.parametrize("searcher", sorted(SEARCHERS))
def test_the_best_plan_takes_as_long_as_its_prediction(searcher: str) -> None:
    goal = Goal(allow=Effect.LOSSY, strategies=FEW)
    found = search(JOB, LAN, Question(), goal, searcher)
    assert found.best.step_ns == predict(JOB, found.best.plan, LAN).step_ns
    assert found.best.batch_ns <= found.unchanged.batch_ns


def test_what_is_more_than_allowed_is_not_in_a_plan() -> None:
    found = search(JOB, LAN, Question(), Goal(allow=Effect.EXACT, strategies=FEW))
    assert found.best.effect is Effect.EXACT
    assert all(each.effect is Effect.EXACT for each in found.pareto)


def test_an_unknown_searcher_names_the_known_ones() -> None:
    with pytest.raises(SearchError, match="guided"):
        search(JOB, LAN, Question(), Goal(), "best")
