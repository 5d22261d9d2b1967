"""Jobs recorded on GPUs: what a row is of, and what is kept of a new recording."""

import json
from pathlib import Path

import pytest
from benchmarks.accuracy import gpu


def job(**times: object) -> gpu.Job:
    return gpu.Job("h100", "narrow", graph=None, times={"plans": {}, **times})  # type: ignore[arg-type]


def test_steps_that_were_timed_before_the_profiler_are_the_jobs_own() -> None:
    both = job(before_ms=[17.0, 17.4, 17.2], alone_ms=[30.0], drift=0.8)
    assert gpu.beside_steps(17.2, both) == {
        "predicted_ms": 17.2,
        "measured_ms": 17.2,
        "error": 0.0,
    }


def test_a_row_timed_behind_a_profiler_counts_and_says_so() -> None:
    row = gpu.beside_steps(15.0, job(alone_ms=[30.0], drift=0.8))
    assert (row["error"], row["drift"]) == (-0.5, 0.8)
    found = gpu.told("step", [{"error": 0.1}, row])
    assert (found["step_mean"], found["step_worst"]) == (0.3, 0.5)


def test_blocks_of_one_plan_tell_what_chance_makes_of_them() -> None:
    assert gpu.scatter([40.0, 42.0, 32.5]) == pytest.approx(4.75 / 40)


def test_taking_new_recordings_keeps_the_others(tmp_path: Path) -> None:
    (tmp_path / gpu.TIMES).write_text(json.dumps({"old": {"alone_ms": [1.0]}}))
    gpu.take(tmp_path / "nothing", tmp_path)
    assert json.loads((tmp_path / gpu.TIMES).read_text()) == {"old": {"alone_ms": [1.0]}}
