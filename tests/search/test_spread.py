"""Plans replayed by workers: the same scores, and a worker that dies is survived."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline.cluster import Cluster
from paceline.graph import Graph, save_graph
from paceline.graph.synthetic import Parallel, TrainingJob, training
from paceline.predict import Candidates, Question
from paceline.search import Goal, SearchPlace, search
from paceline.search.judge import Judge
from paceline.search.score import Refused
from paceline.search.scoring import scoring
from paceline.spread import Parts, SpreadError
from paceline.strategies import load_plan, parse

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
    there = search(job, lan, Question(), GOAL, place=SearchPlace(on))
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


@given(items=st.integers(1, 500), many=st.integers(1, 8), alike=st.integers(1, 64))
def test_parts_that_are_dealt_hold_all_items_and_are_of_one_size(
    items: int, many: int, alike: int
) -> None:
    parts = [*Parts(alike=alike).dealt(range(items), many)]
    assert len(parts) == many
    assert sorted(item for part in parts for item in part) == list(range(items))
    assert max(map(len, parts)) - min(map(len, parts)) <= -(-items // (many * alike)) + 1


@given(items=st.integers(1, 5000), item_s=st.floats(1e-5, 20), least=st.integers(1, 64))
def test_no_part_takes_much_longer_than_who_waits_for_it_would_like(
    items: int, item_s: float, least: int
) -> None:
    parts = Parts(most=2048, least=least)
    size = parts.next(items, 2, item_s)
    assert size == 1 or size * item_s <= 1.001 * parts.longest_s
    assert parts.next(items, 2) <= parts.first, "nothing is known of the first parts"


@pytest.mark.live
def test_an_interrupt_ends_workers_and_keeps_what_was_found(tmp_path: Path) -> None:
    """Ctrl-C reaches every process of the terminal."""
    save_graph(training(TrainingJob(Parallel.DDP, layers=12, steps=3)), tmp_path / "run")
    (tmp_path / "c.yaml").write_text("hosts: 2\nlink: {rate: 400Mbps}\n")
    tried, plan = tmp_path / "tried.jsonl", tmp_path / "plan.json"
    asked = f"search {tmp_path}/run --cluster {tmp_path}/c.yaml --on processes:2 --tried {tried}"
    wide = "--cores 2 --searcher exhaustive --allow lossy --budget 10min --json"
    names = ("buckets", "bf16", "fp16", "int8", "topk", "priority", "partition", "overlap_update")
    only = [word for name in names for word in ("--only", name)]
    command = [sys.executable, "-m", "paceline", *asked.split(), *wide.split(), *only]
    search = subprocess.Popen(
        [*command, "-o", str(plan)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        start_new_session=True, env={**os.environ, "OF_THE_SEARCH": str(tmp_path)},
    )  # fmt: skip
    while not tried.exists() or tried.read_text().count("\n") < 100:
        with suppress(subprocess.TimeoutExpired):
            pytest.fail(f"it ended with {search.wait(0.02)}: {search.communicate()}")
    os.killpg(search.pid, signal.SIGINT)
    told, errors = search.communicate(timeout=60)
    found = json.loads(told)
    assert search.returncode == 0, errors
    assert found["ended"] == "interrupted"
    assert found["best"]["batch_ns"] < found["unchanged"]["batch_ns"]
    assert load_plan(plan).strategies
    assert "Traceback" not in errors
    assert not any(str(tmp_path).encode() in environment for environment in environments())


def environments() -> Iterator[bytes]:
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it has just ended, or is another user's
            yield (process / "environ").read_bytes()


@pytest.mark.parametrize("on", ["threads", "processes:none", "mpi://host"])
def test_unknown_workers_are_refused_with_those_that_there_are(
    on: str, job: Graph, lan: Cluster
) -> None:
    with pytest.raises(SpreadError, match="processes"):
        search(job, lan, Question(), GOAL, place=SearchPlace(on))
