"""Jobs recorded on GPUs: which rows say something, and what is kept of a new recording."""

import json
from pathlib import Path

import pytest
from benchmarks.accuracy import gpu


def job(**times: object) -> gpu.Job:
    return gpu.Job("h100", "narrow", graph=None, times={"plans": {}, **times})  # type: ignore[arg-type]


def test_steps_that_were_timed_before_the_profiler_are_the_jobs_own() -> None:
    both = job(before_ms=[17.0, 17.4, 17.2], alone_ms=[30.0], drift=0.8)
    assert both.step_ms == 17.2
    assert both.measurable


def test_steps_behind_a_profiler_that_slows_them_say_nothing() -> None:
    assert not job(alone_ms=[30.0], drift=0.8).measurable
    assert job(alone_ms=[30.0], drift=0.02).measurable
    assert job(alone_ms=[30.0], drift=-0.1).measurable  # a queue of launches that fills anew


def test_rows_that_say_nothing_stand_among_the_rows_and_in_no_mean() -> None:
    rows = [{"error": 0.02}, {"error": -0.04}, {"error": -0.5, "measurable": False}]
    found = gpu.told("step", rows)
    assert found["step_rows"] == rows
    assert found["step_lost"] == 1
    assert (found["step_mean"], found["step_worst"]) == (pytest.approx(0.03), 0.04)


def test_blocks_of_one_plan_tell_what_chance_makes_of_them() -> None:
    assert gpu.scatter([40.0, 42.0, 32.5]) == pytest.approx(4.75 / 40)


def test_taking_new_recordings_keeps_the_others(tmp_path: Path) -> None:
    (tmp_path / gpu.TIMES).write_text(json.dumps({"old": {"alone_ms": [1.0]}}))
    gpu.take(tmp_path / "nothing", tmp_path)
    assert json.loads((tmp_path / gpu.TIMES).read_text()) == {"old": {"alone_ms": [1.0]}}
