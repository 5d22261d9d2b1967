"""`paceline place`: what it prints and when it fails."""

import json
from pathlib import Path

import pytest

from paceline.cli import main
from paceline.graph import GraphBuilder, save_graph

CHAIN = {
    "maxSizePerFPGA": 3.0,
    "maxFPGAs": 2,
    "maxCPUs": 1,
    "nodes": [
        {"id": i, "supportedOnFpga": 1, "cpuLatency": 40.0, "fpgaLatency": 4.0,
         "isBackwardNode": 0, "size": 1.0}
        for i in range(4)
    ],
    "edges": [{"sourceId": i, "destId": i + 1, "cost": 0.5} for i in range(3)],
}  # fmt: skip


@pytest.fixture
def problem(tmp_path: Path) -> Path:
    path = tmp_path / "chain.json"
    path.write_text(json.dumps(CHAIN))
    return path


def shown(capsys: pytest.CaptureFixture[str], *arguments: object) -> dict[str, object]:
    code = main(["place", *map(str, arguments), "--json"])
    return {"code": code, **json.loads(capsys.readouterr().out)}


def test_json_holds_the_answer_and_its_proof(
    problem: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = shown(capsys, "--input", problem)
    assert data["code"] == 0
    assert data["max_load"] == data["lower_bound"] == 8.5
    assert data["gap"] == 0
    assert {"seconds", "peak_mb"} <= data.keys()
    split = data["split"]
    assert isinstance(split, dict)
    assert sorted(n for part in split["fpgas"] for n in part["nodes"]) == [0, 1, 2, 3]


@pytest.mark.parametrize("question", ["--noncontiguous", "--latency"])
def test_the_other_questions_answer_too(
    problem: Path, question: str, capsys: pytest.CaptureFixture[str]
) -> None:
    data = shown(capsys, "--input", problem, question, "--threads", 1)
    assert data["outcome"] == "optimal"
    assert (data["latency"] == 17.0) if question == "--latency" else (data["max_load"] == 8.5)


def test_devices_given_on_the_command_line_win(
    problem: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert shown(capsys, "--input", problem, "--devices", 4)["max_load"] == 5.0


def test_an_infeasible_problem_exits_with_its_reason(
    problem: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = shown(capsys, "--input", problem, "--memory", 0.5, "--cpus", 0)
    assert data["code"] == 1
    assert data["max_load"] is None
    assert data["outcome"] == "infeasible"
    assert data["notes"]


def test_a_recorded_run_can_be_placed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    b = GraphBuilder()
    lane = b.lane()
    for name in "abcd":
        b.op(name, lane, 2_000_000)
    save_graph(b.build(), tmp_path / "run")
    assert shown(capsys, tmp_path / "run", "--devices", 2)["max_load"] == 4.0
    assert main(["place", str(tmp_path / "run")]) == 1
    assert "--devices" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ([], "give either a RUN or --input"),
        (["--input", "none.json"], "cannot be read"),
        (["--replicate", "2"], "--sync-rate"),
        (["--time-limit", "0"], "must be above 0"),
        (["--devices", "0", "--cpus", "0"], "no device"),
    ],
)
def test_wrong_use_is_explained(
    problem: Path, arguments: list[str], reason: str, capsys: pytest.CaptureFixture[str]
) -> None:
    given = (
        arguments
        if not arguments or "--input" in arguments
        else [*arguments, "--input", str(problem)]
    )
    assert main(["place", *given]) == 1
    assert reason in capsys.readouterr().err


def test_text_and_picture_show_loads_and_other_methods(
    problem: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    picture = tmp_path / "placement.svg"
    assert main(["place", "--input", str(problem), "--compare", "--svg", str(picture)]) == 0
    text = capsys.readouterr().out
    assert "accelerator 1" in text
    assert "pipedream" in text
    assert picture.read_text().count("<circle") == 4
