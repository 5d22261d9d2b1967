"""`paceline search`: the plan that it writes, what it says, and options that do not go together."""

import json
from pathlib import Path

import pytest

from paceline.cli import main
from paceline.graph import save_graph
from paceline.graph.synthetic import Parallel, TrainingJob, training
from paceline.strategies import load_plan

ONLY = ("--only", "buckets", "--only", "bf16", "--only", "priority")


@pytest.fixture
def asked(tmp_path: Path) -> tuple[str, ...]:
    """The command for a small job on a slow network."""
    save_graph(training(TrainingJob(Parallel.DDP, workers=2, steps=3)), tmp_path / "run")
    (tmp_path / "c.yaml").write_text("hosts: 2\nlink: {rate: 400Mbps}\n")
    return ("search", str(tmp_path / "run"), "--cluster", str(tmp_path / "c.yaml"), *ONLY)


def test_it_writes_the_best_plan_and_says_why_each_part_is_in_it(
    asked: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "plan.json"
    assert main([*asked, "--allow", "lossy", "-o", str(file)]) == 0
    said, plan = capsys.readouterr().out, load_plan(file)
    assert "bf16" in [str(part).partition("(")[0] for part in plan.strategies]
    assert all(reason in said for reason in plan.reasons)
    assert "best plan, lossy" in said
    assert plan.predicted is not None


def test_as_json_it_has_the_unchanged_job_and_what_was_refused(
    asked: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*asked, "--only", "channels_last", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["best"]["effect"] == "exact"
    assert told["best"]["batch_ns"] <= told["unchanged"]["batch_ns"]
    assert told["ended"] == "done"
    assert [row["strategy"] for row in told["refused"]] == ["channels_last"]


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (("--with", "bf16"), "a search finds the changes itself"),
        (("--budget", "soon"), "--budget is 'soon'"),
        (("--budget", "0s"), "give more than 0"),
        (("--searcher", "best"), "there are guided"),
        (("--on", "mpi://host"), "work is spread over processes"),
        (("--memory-limit", "1MB"), "does not tell what a rank holds"),
    ],
)
def test_what_cannot_be_searched_says_why(
    more: tuple[str, ...], said: str, asked: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*asked, *more]) == 1
    assert said in capsys.readouterr().err
