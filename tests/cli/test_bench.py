"""`paceline bench` on the command line."""

import json
from pathlib import Path

import pytest

from paceline.bench import names
from paceline.cli import main


@pytest.mark.needs("torch")
def test_the_list_names_every_workload(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "list", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert [each["name"] for each in told["workloads"]] == list(names())


def test_an_unknown_workload_is_refused_with_the_nearest_name(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert main(["bench", "run", "resnet2", "-o", str(tmp_path / "b")]) == 1
    assert "did you mean resnet20?" in capsys.readouterr().err
    assert not (tmp_path / "b").exists()


@pytest.mark.slow
@pytest.mark.live
@pytest.mark.needs("torch", "linux")
def test_a_sweep_measures_reports_and_goes_on(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    line = ["bench", "run", "gnn", "--steps", "3", "-o", str(tmp_path), "--json", "--batch-sizes"]
    assert main([*line, "256"]) == 0
    rows = (tmp_path / "rows.jsonl").read_text()
    assert main([*line, "256", "512"]) == 0
    assert (tmp_path / "rows.jsonl").read_text().startswith(rows)
    told = json.loads(capsys.readouterr().out.split("\n}\n{")[0] + "\n}")
    point = told["points"][0]
    assert point["structure"]["parts"]["activations"] > 0
    assert 0 < point["efficiency"]["utilisation"] < 1
    assert (tmp_path / "gnn-throughput.svg").exists()


@pytest.mark.slow
@pytest.mark.live
@pytest.mark.needs("torch", "linux")
def test_a_batch_that_does_not_fit_is_bisected_and_reported(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    line = ["bench", "run", "gnn", "--steps", "3", "-o", str(tmp_path), "--json"]
    line += ["--batch-sizes", "1024", "2000000", "--memory-limit", "200MB"]
    assert main(line) == 0
    unfit = json.loads(capsys.readouterr().out)["unfit"]
    assert len(unfit) == 1
    assert 1024 <= unfit[0]["fits"] < 2_000_000
