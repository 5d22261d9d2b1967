"""Every command keeps the contract of the command line; exit codes are 0, 1 and 2."""

import json
import os
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest

import paceline.cli
from paceline.cli import command_name, main
from paceline.graph import GraphBuilder, OpKind, save_graph
from paceline.graph.synthetic import Ring, ring

COMMANDS = {
    command_name(file.stem): import_module(f"paceline.cli.{file.stem}")
    for file in Path(paceline.cli.__file__).parent.glob("*.py")
    if not file.stem.startswith("_")
}


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four ranks over a ring, kept in a folder."""
    graph = ring(Ring(ranks=4, layers=4, tensors=2, jitter=0.1))
    return save_graph(graph, tmp_path_factory.mktemp("jobs") / "ring")


@pytest.mark.parametrize("module", COMMANDS.values(), ids=COMMANDS)
def test_a_command_has_a_docstring_configure_and_run(module: ModuleType) -> None:
    assert len((module.__doc__ or "").strip().splitlines()[0]) > 20
    assert callable(module.configure)
    assert callable(module.run)


@pytest.mark.parametrize("name", COMMANDS)
def test_help_names_the_command_and_json(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exit_code:
        main([name, "--help"])
    assert exit_code.value.code == 0
    shown = capsys.readouterr().out
    assert f"paceline {name}" in shown
    assert "--json" in shown


def test_a_command_imports_no_other_command() -> None:
    seen = "import sys; from paceline.cli import main; main(['show', 'nothing']); " + (
        "print(*(m for m in sys.modules if m.startswith('paceline.cli.')))"
    )
    done = subprocess.run([sys.executable, "-c", seen], capture_output=True, text=True, check=True)
    assert [m for m in done.stdout.split() if "._" not in m] == ["paceline.cli.show"]


def test_help_and_a_wrong_name_list_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    for arguments in (["--help"], ["shw"]):
        with pytest.raises(SystemExit):
            main(arguments)
        shown = "".join(capsys.readouterr())
        assert all(name in shown for name in COMMANDS)


def test_version_names_the_engine(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exit_code:
        main(["--version"])
    assert exit_code.value.code == 0
    assert capsys.readouterr().out.startswith(f"paceline {paceline.__version__}, engine: ")


def test_without_the_native_core_version_says_so() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "paceline", "--version"],
        env={**os.environ, "PACELINE_ENGINE": "python"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert "engine: plain Python" in done.stdout


def test_wrong_use_is_2(capsys: pytest.CaptureFixture[str]) -> None:
    for arguments in ([], ["dance"], ["show"], ["show", "x", "--top", "0"]):
        with pytest.raises(SystemExit) as exit_code:
            main(arguments)
        assert exit_code.value.code == 2
    assert "'0' is not a whole number of at least 1" in capsys.readouterr().err


@pytest.mark.parametrize("command", [["show"], ["predict"], ["convert", "--to", "graph"]])
def test_what_cannot_be_done_is_1_with_the_reason(
    command: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = [str(tmp_path / "t")] if command[0] == "convert" else []
    assert main([*command, str(tmp_path / "none"), *target]) == 1
    assert "none does not exist. Give the folder" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_show_tells_where_the_step_goes(job: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", str(job)]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith("Step ")
    assert "Critical path: " in shown
    for heading in ("where each rank's time goes", "critical path by kind", "lanes"):
        assert heading in shown


def test_show_as_json_sums_to_the_step(job: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", "--json", str(job)]) == 0
    data = json.loads(capsys.readouterr().out)
    assert sum(data["path_by_kind"].values()) == data["step_ns"]
    assert [sum(s.values()) for s in data["rank_shares"].values()] == [data["step_ns"]] * 4


def test_predict_scales_what_is_selected(job: Path, capsys: pytest.CaptureFixture[str]) -> None:
    scale = ["--scale", "kind=transfer:0.5", "--scale", "kind=transfer:0.5"]
    assert main(["predict", "--json", str(job), *scale]) == 0
    data = json.loads(capsys.readouterr().out)
    assert data["after_ns"] < data["before_ns"]
    assert data["change"] == pytest.approx(data["after_ns"] / data["before_ns"] - 1)
    assert data["changes"] == ["scale(select='kind=transfer', factor=0.5)"] * 2
    assert main(["predict", str(job), *scale]) == 0
    assert "rests on change: scale(select='kind=transfer', factor=0.5)" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("scale", "message"),
    [
        ("kind=transfer", "is not SELECTION:FACTOR"),
        ("kind=nothing:2", "'nothing' is no OpKind; known are compute"),
        ("layer=attic:2", "selects none of the graph's"),
    ],
)
def test_a_wrong_scale_is_named(
    scale: str, message: str, job: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["predict", str(job), "--scale", scale]) == 1
    assert message in capsys.readouterr().err


def test_predict_draws_from_recorded_samples(
    tmp_path: Path, job: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    b = GraphBuilder()
    lane = b.lane()
    b.samples(b.op("a", lane, 10), [8, 12])
    b.op("b", lane, 5)
    path = save_graph(b.build(), tmp_path / "g")
    arguments = ["predict", str(path), "--draws", "50", "--scale", "all:2"]
    assert main([*arguments, "--json"]) == 0
    draws = json.loads(capsys.readouterr().out)["draws"]
    assert (draws["before"]["p5_ns"], draws["before"]["p95_ns"]) == (13, 17)
    assert draws["after"]["mean_ns"] == 2 * draws["before"]["mean_ns"]
    assert main(arguments) == 0
    assert "50 draws" in capsys.readouterr().out
    assert main(["predict", str(job), "--draws", "5"]) == 1
    assert "no op has samples" in capsys.readouterr().err


def test_a_prediction_from_several_steps_is_of_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    b = GraphBuilder()
    lane = b.lane()
    for step, length in enumerate((10, 20, 30, 24, 22)):
        b.op("step", lane, kind=OpKind.MARKER, step=step)
        b.op("mm", lane, length, step=step)
    save_graph(b.build(), tmp_path / "job")
    assert main(["predict", str(tmp_path / "job"), "--scale", "all:2", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["before_ns"], told["after_ns"]) == (22, 44)


def test_convert_goes_by_the_name_of_the_target(
    job: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["convert", str(job), str(tmp_path / "t.json.gz"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["format"] == "perfetto"
    assert main(["convert", str(job), str(tmp_path / "et"), "--to", "chakra"]) == 0
    assert main(["convert", str(tmp_path / "et"), str(tmp_path / "back")]) == 0
    assert "back: graph, 144 ops of 4 ranks" in capsys.readouterr().out
    steps = []
    for path in (job, tmp_path / "back"):
        main(["show", "--json", str(path)])
        steps.append(json.loads(capsys.readouterr().out)["step_ns"])
    assert steps[0] == steps[1]


def test_doctor_says_what_is_there(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert data["paceline"] == paceline.__version__
    assert data["libraries"]["numpy"]
    assert set(data["lab"]) == {"root", "network namespaces", "ip", "tc", "nft"}
    assert main(["doctor"]) == 0
    assert data["engine"] in capsys.readouterr().out


def test_doctor_says_how_steady_the_machine_is(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "--noise", "--seconds", "1", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["steps_for_gain"] >= 5
    assert all(row["measurable"] == (row["floor"] <= row["asked"] / 2) for row in found["trust"])
    assert main(["doctor", "--noise", "--seconds", "1"]) == 0
    shown = capsys.readouterr().out
    assert "varies at 10 s by     watch for 20 s or longer" in shown
    assert "two plans need" in shown


def test_doctor_refuses_a_length_of_watching_that_tells_nothing(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit):
        main(["doctor", "--noise", "--seconds", "soon"])
    assert "'soon' is not a number of seconds from 1 to 3600" in capsys.readouterr().err


def test_no_color_and_no_terminal_mean_plain_text(job: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "paceline", "show", str(job)],
        env={**os.environ, "NO_COLOR": "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert "\x1b" not in done.stdout
    assert done.stderr == ""


def test_unpriced_ops_are_refused_with_advice(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    b = GraphBuilder()
    b.op("matmul", b.lane(rank=3), -1)
    assert main(["show", str(save_graph(b.build(), tmp_path / "g"))]) == 1
    assert "1 ops are unpriced, first op 0 'matmul' (rank 3" in capsys.readouterr().err


def test_an_empty_graph_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", str(save_graph(GraphBuilder().build(), tmp_path / "g"))]) == 1
    assert "an empty graph cannot be replayed" in capsys.readouterr().err
