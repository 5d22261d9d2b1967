"""`paceline weave`: what ships, what its schedules cost, and what is timed on real workers."""

import json
from pathlib import Path

import pytest

from paceline.cli import main
from paceline.measure import Calibration, Sweep, save
from paceline.weave.layout import Group
from paceline.weave.programs.shipped import SHIPPED, ProgramSize
from paceline.weave.replayed import replayed_s
from paceline.weave.traffic import Rates

PLAIN = {"schedule": "AR-C", "backend": "plain", "tunables": {}}


@pytest.fixture
def cluster(tmp_path: Path) -> str:
    """Two hosts and a switch between them."""
    path = tmp_path / "two.yaml"
    path.write_text("hosts: {count: 2, device: a100-40}\nlink: {rate: 10Gbps, latency: 10us}\n")
    return str(path)


def shown(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> dict:
    assert main(["weave", "--json", *arguments]) == 0
    return json.loads(capsys.readouterr().out)


def test_without_a_program_every_shipped_one_is_named(capsys) -> None:
    assert main(["weave"]) == 0
    out = capsys.readouterr().out
    assert all(name in out and program.about in out for name, program in SHIPPED.items())


@pytest.mark.parametrize("name", SHIPPED)
def test_every_shipped_program_is_predicted_on_a_cluster(name: str, cluster, capsys) -> None:
    data = shown([name, "--cluster", cluster, "--elements", "1000"], capsys)
    times = [row["predicted_s"] for row in data["rows"] if row["outcome"] == "predicted"]
    refused = [row for row in data["rows"] if row["outcome"] == "refused"]
    assert times == sorted(times)
    assert times[0] > 0
    assert all(row["reason"] for row in refused)
    assert len(times) + len(refused) == len(data["rows"])


def test_a_slower_link_never_shortens_a_schedule(cluster, capsys) -> None:
    fast = shown(["adam", "--cluster", cluster], capsys)
    slow = shown(["adam", "--cluster", cluster, "--set", "link.rate=1Gbps"], capsys)
    before = {row["candidate"]["schedule"]: row["predicted_s"] for row in fast["rows"]}
    for row in slow["rows"]:
        if row["predicted_s"] is not None:
            assert row["predicted_s"] > before[row["candidate"]["schedule"]]


def test_schedules_that_one_reason_refuses_share_a_line(cluster, capsys, monkeypatch) -> None:
    monkeypatch.setenv("COLUMNS", "160")
    assert main(["weave", "mlp", "--cluster", cluster]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["schedule", "back", "end", "predicted", "outcome"]
    assert any("overlap(MM, AR)" in line and "predicted" in line for line in lines)
    reasons = [line.partition("refused: ")[2] for line in lines if "refused: " in line]
    assert len(reasons) == len(set(reasons))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["adm"], "did you mean 'adam'? There are adam, adamw"),
        (["hand-over", "--workers", "3"], "an even number of workers"),
        (["adam", "--set", "link.rate=1Gbps"], "give one with --cluster"),
        (["adam", "--cluster", "c.yaml", "--time"], "leave --cluster out"),
        (["adam", "--cluster", "c.yaml", "--calibration", "f.json"], "tells of this machine"),
    ],
)
def test_what_cannot_be_asked_is_said(arguments: list[str], message: str, capsys) -> None:
    assert main(["weave", *arguments]) == 1
    assert message in capsys.readouterr().err


@pytest.mark.live
def test_on_this_machine_every_able_back_end_is_predicted(capsys) -> None:
    pytest.importorskip("torch", reason="this machine's rates are measured by torch workers")
    data = shown(["mlp", "--rows", "64", "--hidden", "32"], capsys)
    able = {r["candidate"]["backend"] for r in data["rows"] if r["outcome"] == "predicted"}
    assert able >= {"plain", "gloo"}


@pytest.mark.live
def test_a_kept_calibration_stands_for_the_probe(tmp_path: Path, capsys) -> None:
    pytest.importorskip("torch", reason="torch workers say which back ends are able")
    line, kept = Sweep((1e6, 2e6, 4e6), (1e6, 2e6, 4e6)), tmp_path / "here.json"
    made = Calibration("here", 1, 2, line, line, line, line, None)
    save(made, kept)
    size = ["--rows", "64", "--hidden", "32"]
    data = shown(["mlp", *size, "--calibration", str(kept)], capsys)
    written = SHIPPED["mlp"].make(ProgramSize(rows=64, hidden=32), Group.world(2))
    found = next(r for r in data["rows"] if r["candidate"] == PLAIN)
    assert found["predicted_s"] == replayed_s(written, Rates.of(made.speeds()))


@pytest.mark.live
def test_timed_schedules_have_computed_what_the_program_computes(capsys) -> None:
    pytest.importorskip("torch", reason="schedules are timed on torch workers")
    size = ["--elements", "20000", "--keep", "3", "--rounds", "4"]
    data = shown(["clipped-adam", "--time", *size], capsys)
    outcomes = [row["outcome"] for row in data["rows"]]
    assert outcomes.count("chosen") == 1
    assert "wrong result" not in outcomes
    assert sum(row["measured_s"] is not None for row in data["rows"]) >= 3
