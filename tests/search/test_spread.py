"""Plans replayed by workers: the same scores, and a worker that dies is survived."""

import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline.cluster import Cluster
from paceline.graph import Graph
from paceline.predict import Candidates, Question
from paceline.search import Goal, Place, search
from paceline.search.judge import Judge
from paceline.search.score import Refused
from paceline.search.scoring import scoring
from paceline.spread import Parts, SpreadError
from paceline.strategies import parse

sys.path.insert(0, str(Path(__file__).parent))
from killing import Killing

PLANS = [(parse(f"buckets(size_bytes={n}000000)"),) for n in range(1, 7)]
GOAL = Goal(strategies=("buckets", "partition"), budget_s=600.0)
CLUSTERS = [
    pytest.param("processes:2"),
    pytest.param("dask://", marks=[pytest.mark.slow, pytest.mark.needs("dask")]),
    pytest.param("ray://", marks=[pytest.mark.slow, pytest.mark.needs("ray")]),
]


@pytest.mark.parametrize("on", CLUSTERS)
def test_workers_find_the_plan_that_one_process_finds(on: str, job: Graph, lan: Cluster) -> None:
    here = search(job, lan, Question(), GOAL)
    there = search(job, lan, Question(), GOAL, place=Place(on))
    assert (there.best, there.tried) == (here.best, here.tried)


@pytest.mark.parametrize("on", CLUSTERS)
def test_a_worker_that_dies_in_a_search_is_survived(
    on: str, job: Graph, lan: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parent))  # for `killing`
    asked = Candidates(job, lan, Question())
    judge = Killing(asked, str(PLANS[2][0]), tmp_path / "died")
    with scoring(on, judge) as scores:
        found = dict(scores(PLANS))
    assert (tmp_path / "died").exists()
    assert found == {plan: Judge(asked).score(plan) for plan in PLANS}


@pytest.mark.slow
def test_a_plan_that_kills_each_worker_is_refused_and_the_others_are_not(
    job: Graph, lan: Cluster
) -> None:
    judge = Killing(Candidates(job, lan, Question()), str(PLANS[2][0]))
    with scoring("processes:2", judge) as scores:
        found = dict(scores(PLANS))
    refused = [plan for plan, score in found.items() if isinstance(score, Refused)]
    assert refused == [PLANS[2]]
    assert "died, 3 times" in found[PLANS[2]].reason


@given(items=st.integers(1, 2000), workers=st.integers(1, 8), least=st.integers(1, 64))
def test_parts_hold_all_items_and_leave_no_worker_without(
    items: int, workers: int, least: int
) -> None:
    parts, left, sizes = Parts(most=256, least=least), items, list[int]()
    while left:
        sizes.append(parts.next(left, workers))
        left -= sizes[-1]
    assert sum(sizes) == items
    assert 1 <= min(sizes) <= max(sizes) <= 256
    assert len(sizes) >= min(items, workers)


@pytest.mark.parametrize("on", ["threads", "processes:none", "mpi://host"])
def test_unknown_workers_are_refused_with_those_that_there_are(
    on: str, job: Graph, lan: Cluster
) -> None:
    with pytest.raises(SpreadError, match="processes"):
        search(job, lan, Question(), GOAL, place=Place(on))
