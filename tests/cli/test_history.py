"""`paceline history`, and what the other commands tell it: a real recording, predicted."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from paceline.cli import main
from paceline.graph import Facts, Graph, Parameter, save_graph
from paceline.graph.synthetic import Ring, ring
from paceline.history import Ground, History, JobTraits, Kind, Measured, Predicted
from paceline.history.entry import Entry
from paceline.predict import Leaning
from paceline.strategies.plan import digest

MS = 1_000_000


@pytest.fixture
def history(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> History:
    monkeypatch.setenv("PACELINE_HISTORY", str(tmp_path / "history.sqlite"))
    return History(tmp_path / "history.sqlite")


def shown(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, Any]:
    assert main([*words, "--json"]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def named(graph: Graph) -> Graph:
    return replace(graph, facts=Facts(graph.world_size, (Parameter("w", 4_000_000),)))


@pytest.fixture
def job(tmp_path: Path) -> Path:
    graph = named(ring(Ring(ranks=2, layers=4, tensors=2, jitter=0.1)))
    return save_graph(graph, tmp_path / "job")


USUAL = Leaning(0.9, 0.1)


def measured(
    step_ns: int, at_ns: int, measured_over_predicted: float, leans: Leaning | None = USUAL
) -> Entry:
    seen = round(step_ns * measured_over_predicted)
    return Entry(
        Kind.VERDICT,
        JobTraits(digest([("w", 4_000_000)]), 2, ""),
        at_ns,
        f"run {at_ns}",
        predicted=Predicted(step_ns, step_ns, step_ns, Ground.RECORDED, leans),
        measured=Measured(seen, seen, seen, 20),
    )


def test_a_prediction_is_kept_with_what_its_step_hangs_on(
    history: History, job: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    told = shown(capsys, "predict", str(job), "--scale", "kind=compute:0.5")
    (entry,) = history.entries()
    assert entry.kind is Kind.PREDICTION
    assert entry.predicted is not None
    assert entry.predicted.step_ns == told["step_ns"]
    assert entry.predicted.leans is not None
    assert 0 < entry.predicted.leans.work <= 1.01
    assert len(entry.strategies) == 1
    assert entry.strategies[0].startswith("scale(")


def test_the_next_prediction_of_a_like_job_starts_corrected_and_says_so(
    history: History, job: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = shown(capsys, "predict", str(job))
    guess = history.entries()[0].predicted
    assert guess is not None
    history.add(*(measured(before["step_ns"], at, 1.1, guess.leans) for at in range(5)))
    after = shown(capsys, "predict", str(job))
    assert after["correction"]["work"] > 1.03
    assert after["step_ns"] / before["step_ns"] == pytest.approx(1.1, abs=0.03)
    reasons = " ".join(after["rests_on"])
    assert "corrected by earlier runs: work +" in reasons
    assert "run 4" in reasons
    plain = shown(capsys, "predict", str(job), "--no-correction")
    assert plain["step_ns"] == before["step_ns"]
    assert plain["correction"] is None


def test_a_history_that_cannot_be_read_fails_no_prediction(
    history: History, job: Path, capsys: pytest.CaptureFixture[str], caplog: Any
) -> None:
    history.path.write_bytes(b"no database" * 999)
    assert shown(capsys, "predict", str(job))["step_ns"] > 0
    assert "Nothing is corrected by it" in caplog.text
    assert main(["history"]) == 1


def test_entries_are_listed_compared_exported_and_forgotten(
    history: History, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    import pyarrow.parquet

    history.add(measured(100 * MS, 1, 1.1), measured(100 * MS, 2, 0.8))
    table = tmp_path / "out.parquet"
    told = shown(capsys, "history", "compare", "--parquet", str(table))
    assert [row["measured_ns"] for row in told["entries"]] == [110 * MS, 80 * MS]
    (errors,) = told["by_strategy"]
    assert (errors["strategy"], errors["count"], errors["worst"]) == ("none", 2, 100 / 80 - 1)
    rows = pyarrow.parquet.read_table(table).to_pylist()
    assert rows == told["entries"]
    assert main(["history", "compare"]) == 0
    assert "110 ms" in capsys.readouterr().out
    assert main(["history", "forget"]) == 1
    assert len(history.entries()) == 2
    told = shown(capsys, "history", "forget", "--key", rows[0]["key"])
    assert told["forgotten"] == 1
    assert shown(capsys, "history", "forget", "--all")["forgotten"] == 1


def test_dates_are_days_moments_or_so_many_days_ago(
    history: History, capsys: pytest.CaptureFixture[str]
) -> None:
    history.add(measured(MS, 1, 1.1))
    assert shown(capsys, "history", "--since", "7d")["entries"] == []
    assert len(shown(capsys, "history", "--until", "1969-12-01")["entries"]) == 0
    assert len(shown(capsys, "history", "--until", "2020-01-01T10:00")["entries"]) == 1
    with pytest.raises(SystemExit):
        main(["history", "--since", "yesterday"])


def test_a_history_that_is_switched_off_is_said(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PACELINE_HISTORY", "off")
    assert main(["history"]) == 1
    assert "switched off" in capsys.readouterr().err


@pytest.mark.needs("torch")
def test_a_recording_and_its_prediction_are_of_one_job(
    history: History, ddp_recording: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    from paceline.history import keep, recording_entry

    entry = recording_entry(ddp_recording.folder)
    assert entry is not None
    assert entry.measured is not None
    assert keep(entry)
    shown(capsys, "predict", str(ddp_recording.folder))
    first, second = history.entries()
    assert first.job == second.job
    assert first.job.machine
    assert "train.py" in first.name
