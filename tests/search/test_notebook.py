"""What was tried is kept, and a search goes on from it."""

from dataclasses import replace
from pathlib import Path

import pytest

from paceline.cluster import Cluster
from paceline.errors import FileError
from paceline.graph import Graph
from paceline.predict import Question
from paceline.search import Ended, Goal, SearchPlace, search
from paceline.strategies import Effect

GOAL = Goal(allow=Effect.LOSSY, strategies=("buckets", "bf16", "partition"))


def test_a_search_that_was_cut_short_goes_on_and_ends_as_one_that_was_not(
    job: Graph, lan: Cluster, tmp_path: Path
) -> None:
    place = SearchPlace(tried=tmp_path / "tried.jsonl")
    cut = search(job, lan, Question(), replace(GOAL, budget_s=1e-6), place=place)
    lines = (tmp_path / "tried.jsonl").read_text().splitlines()
    assert cut.ended is Ended.BUDGET
    assert len(lines) == cut.tried + 1
    on = search(job, lan, Question(), GOAL, place=place)
    whole = search(job, lan, Question(), GOAL)
    assert (on.best, on.tried) == (whole.best, whole.tried)


def test_what_is_known_is_not_replayed_again(job: Graph, lan: Cluster, tmp_path: Path) -> None:
    place = SearchPlace(tried=tmp_path / "tried.jsonl")
    first = search(job, lan, Question(), GOAL, place=place)
    before = (tmp_path / "tried.jsonl").read_text()
    again = search(job, lan, Question(), GOAL, place=place)
    assert (tmp_path / "tried.jsonl").read_text() == before
    assert again.best == first.best


def test_a_line_that_was_cut_by_the_end_of_its_process_is_left_out(
    job: Graph, lan: Cluster, tmp_path: Path
) -> None:
    path = tmp_path / "tried.jsonl"
    first = search(job, lan, Question(), GOAL, place=SearchPlace(tried=path))
    path.write_text(path.read_text()[:-7])
    assert search(job, lan, Question(), GOAL, place=SearchPlace(tried=path)).best == first.best
    assert path.read_text().endswith("\n")


def test_what_was_tried_of_another_job_is_refused(job: Graph, lan: Cluster, tmp_path: Path) -> None:
    place = SearchPlace(tried=tmp_path / "tried.jsonl")
    search(job, lan, Question(), GOAL, place=place)
    slower = replace(lan, name="another")
    with pytest.raises(FileError, match="another job, cluster"):
        search(job, slower, Question(), GOAL, place=place)
    (tmp_path / "tried.jsonl").write_text("{}x\n")
    with pytest.raises(FileError, match="is no file of plans"):
        search(job, lan, Question(), GOAL, place=place)
