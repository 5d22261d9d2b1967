"""Wrapping a command: what the job sees, and what of it comes back."""

import os
import sys
from pathlib import Path

import pytest

from paceline.errors import FileError
from paceline.graph import save_graph
from paceline.graph.synthetic import Ring, ring
from paceline.record import sidecar
from paceline.record.job import Here, InLab, job_of
from paceline.record.launch import (
    LaunchError,
    RecordRequest,
    injected,
    launch,
    launched_in,
    outcomes,
)


def request(folder: Path, *command: str, **settings: bool) -> RecordRequest:
    return RecordRequest(command=command, folder=folder / "run", **settings)


def python(folder: Path, code: str) -> RecordRequest:
    return request(folder, sys.executable, "-c", code)


def test_the_exit_code_and_the_output_are_the_jobs(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    done = launch(python(tmp_path, "print('from the job'); raise SystemExit(7)"), os.environ)
    assert done.exit_code == 7
    assert capfd.readouterr().out == "from the job\n"


def test_a_job_that_dies_of_a_signal_counts_as_128_and_more(tmp_path: Path) -> None:
    done = launch(python(tmp_path, "import os; os.kill(os.getpid(), 9)"), os.environ)
    assert done.exit_code == 137


def test_a_job_without_an_optimizer_leaves_no_rank(tmp_path: Path) -> None:
    assert launch(python(tmp_path, "pass"), os.environ).ranks == ()


@pytest.mark.needs("torch")
@pytest.mark.parametrize(("workers", "waits"), [("1", ""), ("2", "waits 0.2\n")])
def test_one_of_several_workers_outlasts_gloos_threads(
    workers: str, waits: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    code = "import time, torch; time.sleep = lambda s: print('waits', s)"
    launch(python(tmp_path, code), {**os.environ, "WORLD_SIZE": workers})
    assert capfd.readouterr().out == waits


def test_the_jobs_own_sitecustomize_still_runs(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "sitecustomize.py").write_text("print('site of the job')")
    launch(python(tmp_path, "pass"), {**os.environ, "PYTHONPATH": str(tmp_path)})
    assert "site of the job" in capfd.readouterr().out


def test_the_recorder_does_not_load_torch_for_a_job_that_does_not(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    launch(python(tmp_path, "import sys; print('torch' in sys.modules)"), os.environ)
    assert capfd.readouterr().out == "False\n"


def test_a_command_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(LaunchError, match="no-such-trainer"):
        launch(request(tmp_path, "no-such-trainer"), os.environ)


def test_without_a_command_the_error_shows_one(tmp_path: Path) -> None:
    with pytest.raises(LaunchError, match="torchrun"):
        launch(request(tmp_path), os.environ)


def test_an_older_recording_is_kept_unless_told_otherwise(tmp_path: Path) -> None:
    first = python(tmp_path, "pass")
    launch(first, os.environ)
    with pytest.raises(FileError, match="--overwrite"):
        launch(first, os.environ)
    again = request(tmp_path, *first.command, overwrite=True)
    assert launch(again, os.environ).exit_code == 0


def test_a_recording_over_an_older_one_takes_its_graph_away(tmp_path: Path) -> None:
    graph = save_graph(ring(Ring(ranks=2, layers=1, tensors=1)), tmp_path / "run" / "graph")
    nothing = python(tmp_path, "pass")
    with pytest.raises(FileError, match="a recording or a graph"):
        launch(nothing, os.environ)
    launch(request(tmp_path, *nothing.command, overwrite=True), os.environ)
    assert not graph.exists()


def test_the_recording_says_whether_a_lab_ran_the_training(tmp_path: Path) -> None:
    done = launch(python(tmp_path, "pass"), os.environ)
    assert job_of(done.folder).launched == Here()
    lab = InLab(["train.py"], "hosts: []")
    launched_in(lab, os.environ)  # not recorded: nothing to note it with
    launched_in(lab, injected({}, request(tmp_path, "paceline"), "job"))
    assert job_of(done.folder).launched == lab


def test_settings_of_the_user_win_over_the_recorders_defaults(tmp_path: Path) -> None:
    found = injected({"TORCH_FR_BUFFER_SIZE": "7"}, request(tmp_path, "train"), "job")
    assert found["TORCH_FR_BUFFER_SIZE"] == "7"


def test_ranks_are_listed_in_the_order_of_their_numbers(tmp_path: Path) -> None:
    for rank in (10, 2):
        record = sidecar.RecordedHost(rank=rank, world_size=11)
        (tmp_path / sidecar.facts_name(rank)).write_bytes(sidecar.encode(record))
    assert [one.rank for one in outcomes(tmp_path)] == [2, 10]
    assert {one.reason for one in outcomes(tmp_path)} == {"killed"}
