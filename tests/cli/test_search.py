"""`paceline search`: the plan that it writes, what it says, and options that do not go together."""

import argparse
import json
from pathlib import Path

import pytest

from paceline.cli import main
from paceline.graph import save_graph
from paceline.graph.synthetic import Parallel, TrainingJob, training
from paceline.learn.noise import NoiseScale, save_noise
from paceline.search import Aim
from paceline.strategies import load_plan, parse

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


def test_a_found_plan_is_predicted_and_priced_anew_where_the_cluster_changed(
    asked: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plan, again, run = tmp_path / "plan.json", tmp_path / "again.json", str(tmp_path / "run")
    cluster = ("--cluster", str(tmp_path / "c.yaml"))
    assert main([*asked, "--allow", "lossy", "-o", str(plan)]) == 0
    capsys.readouterr()
    assert main(["predict", run, *cluster, "--plan", str(plan), "--json"]) == 0
    told, found = json.loads(capsys.readouterr().out), load_plan(plan)
    assert found.predicted is not None
    assert (told["step_ns"], told["plan_made_for_another"]) == (found.predicted.step_ns, [])
    faster = ("--set", "link.rate=4Gbps", "--save-plan", str(again))
    assert main(["predict", run, *cluster, *faster, "--plan", str(plan)]) == 0
    assert "the plan was made for another cluster: it is priced anew" in capsys.readouterr().out
    new = load_plan(again)
    assert new.predicted is not None
    assert new.predicted.step_ns < found.predicted.step_ns
    assert (new.strategies, new.reasons) == (found.strategies, found.reasons)


def test_a_plan_of_another_model_is_neither_predicted_nor_verified(
    asked: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plan, other = tmp_path / "plan.json", tmp_path / "other"
    assert main([*asked, "-o", str(plan)]) == 0
    save_graph(training(TrainingJob(Parallel.DDP, workers=2, steps=3, layers=5)), other)
    cluster = ("--cluster", str(tmp_path / "c.yaml"))
    for command in (("predict",), ("verify", "--job", "true")):
        assert main([*command, str(other), *cluster, "--plan", str(plan)]) == 1
        assert "the plan was made for the model" in capsys.readouterr().err


def test_as_json_it_has_the_unchanged_job_and_what_was_refused(
    asked: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*asked, "--only", "channels_last", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["best"]["effect"] == "exact"
    assert told["best"]["batch_ns"] <= told["unchanged"]["batch_ns"]
    assert told["ended"] == "done"
    assert [row["strategy"] for row in told["refused"]] == ["channels_last"]


@pytest.fixture
def curve(tmp_path: Path) -> str:
    """Accuracy over 400 steps, on its way to 90 %."""
    rows = [(step, 0.9 - 0.5 * (1 + step / 40) ** -1.0) for step in range(10, 401, 10)]
    file = tmp_path / "short.csv"
    file.write_text("step,accuracy\n" + "".join(f"{s},{a:.5f}\n" for s, a in rows))
    return str(file)


def test_the_plan_that_reaches_an_accuracy_soonest_says_when(
    asked: tuple[str, ...], curve: str, capsys: pytest.CaptureFixture[str]
) -> None:
    goal = ("--goal", "time-to-accuracy", "--target", "0.84", "--curve", curve)
    assert main([*asked, *goal, "--allow", "lossy"]) == 0
    said = capsys.readouterr().out
    assert "recorded batches" in said
    assert "times as soon" in said
    more = ("--only", "batch", "--only", "onebit", "--allow", "relaxed", "--json")
    assert main([*asked, *goal, *more]) == 0
    told = json.loads(capsys.readouterr().out)
    best, before = told["best"]["reached"], told["unchanged"]["reached"]
    assert best["low_s"] < best["seconds"] < best["high_s"]
    assert best["seconds"] < before["seconds"]
    assert before["learned"]["batches"]["middle"] == pytest.approx(293, rel=0.05)
    refused = {row["strategy"].partition("(")[0]: row["reason"] for row in told["refused"]}
    assert "paceline learn noise" in refused["batch"]


def test_a_goal_lacking_its_curve_and_a_curve_lacking_its_goal_are_refused(
    asked: tuple[str, ...], curve: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*asked, "--goal", "time-to-accuracy", "--target", "0.8"]) == 1
    assert "--curve FILE" in capsys.readouterr().err
    assert main([*asked, "--curve", curve]) == 1
    assert "--goal time-to-accuracy alone" in capsys.readouterr().err
    goal = ("--goal", "time-to-accuracy", "--curve", curve, "--target")
    assert main([*asked, *goal, "0.97"]) == 1
    assert "reaches 0.97" in capsys.readouterr().err
    assert main([*asked, *goal, "85"]) == 1
    assert "between 0 and 1" in capsys.readouterr().err


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


def test_tune_takes_the_same_goal(curve: str, tmp_path: Path) -> None:
    from paceline.cli.tune import configure, request_of

    parser = argparse.ArgumentParser()
    configure(parser)
    noise = tmp_path / "noise.json"
    save_noise(NoiseScale(3.0, 2.0, float("inf"), 2, 40), noise)
    goal = [
        "--goal",
        "time-to-accuracy",
        "--target",
        "0.84",
        "--curve",
        curve,
        "--noise",
        str(noise),
    ]
    request = request_of(parser.parse_args([*goal, "--allow", "relaxed", "--", "train"]))
    assert request.command == ("train",)
    assert request.goal.aim is Aim.ACCURACY
    assert request.goal.learning is not None
    assert request.goal.learning.noise == 3.0
    assert request.goal.learning.refusal(parse("batch(factor=2.0)")) is None
