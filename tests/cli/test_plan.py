"""`paceline plan`: rows, whole hosts of a system, files it writes, and what it refuses."""

import json
from pathlib import Path

import pytest

from paceline.cli import main

SMALL = """
layers: 4
hidden: 512
vocab: 1024
sequence: 512
attention: {kind: grouped, heads: 8}
feed_forward: {kind: gated, width: 1024}
"""


@pytest.fixture
def model(tmp_path: Path) -> str:
    path = tmp_path / "model.yaml"
    path.write_text(SMALL)
    return str(path)


def test_a_model_file_is_planned_on_a_cluster_file(
    model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster = tmp_path / "cluster.yaml"
    cluster.write_text("hosts: {count: 2, system: dgx-a100}\n")
    given = ["plan", model, "--cluster", str(cluster), "--devices", "16", "--json"]
    assert main([*given, "--own", "tp=2", "--batch", "32"]) == 0
    found = json.loads(capsys.readouterr().out)
    names = [row["name"] for row in found["plans"]]
    assert names[0] == "best"
    assert {"rule of thumb", "own"} <= set(names)
    assert all(row["bound_ms"] <= row["step_ms"] for row in found["plans"])
    assert found["considered"] == (
        found["do_not_fit"] + found["dominated_by_bound"] + found["replayed"]
    )


def test_a_system_of_large_domains_is_filled_evenly(
    model: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["plan", model, "--cluster", "dgx-gb200:256", "--batch", "256"]) == 0
    shown = capsys.readouterr().out
    assert "on 256 x gb200" in shown
    assert "The best plan fits" in shown
    assert "plans considered" in shown


def test_exports_are_written(
    model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    given = ["plan", model, "--cluster", "dgx-h100:4", "-o", str(out)]
    assert main([*given, "--export", "megatron", "--export", "torchtitan"]) == 0
    assert {path.name for path in out.iterdir()} == {
        "megatron.sh", "torchtitan.sh", "torchtitan_plan.py",
    }  # fmt: skip
    assert "written: " in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["none-such", "--cluster", "dgx-h100:8"], "no model is called 'none-such'"),
        (["llama3-8b", "--cluster", "dgx-h100:x"], "is no file"),
        (["llama3-8b", "--cluster", "none.yaml"], "cannot read cluster file"),
        (["llama3-8b", "--cluster", "dgx-h100:8", "--precision", "int4"], "known: fp32"),
        (["llama3-8b", "--cluster", "dgx-a100:8", "--precision", "fp8"], "no rate for float8"),
        (["llama3-8b", "--cluster", "dgx-h100:8", "--factor", "-1"], "give a number"),
        (["llama3-70b", "--cluster", "dgx-h100:8"], "fits nowhere"),
        (["llama3-8b", "--cluster", "dgx-h100:8", "--calibration", "a.json"], "give --cores N"),
        (
            ["llama3-8b", "--cluster", "dgx-h100:8", "--cores", "2", "--calibration", "none.json"],
            "cannot read calibration",
        ),
    ],
)
def test_bad_input_is_refused_by_name(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["plan", *arguments]) == 1
    assert said in capsys.readouterr().err
