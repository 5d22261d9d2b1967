"""Rows that a noisy machine leaves nothing to decide about."""

import argparse
import math
from pathlib import Path

import pytest

from benchmarks import floors, measure


def test_a_floor_is_two_standard_errors_of_equal_measurements() -> None:
    assert floors.floor_of([99.0, 101.0]) == pytest.approx(0.02)
    assert floors.floor_of([99.0, 101.0], taken=8) == pytest.approx(0.01)
    assert floors.floor_of([5.0]) == math.inf


def test_a_row_whose_floor_is_more_than_half_of_what_is_asked_is_not_judged() -> None:
    rows = [{"floor": 0.059}, {"floor": 0.06}, {"floor": 0.061}]
    good, lost = floors.told_apart(rows, asked=0.12)
    assert [row["floor"] for row in good] == [0.059, 0.06]
    assert lost == rows[2:]


def test_more_than_a_fifth_of_such_rows_end_the_benchmark_and_keep_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(measure, "RESULTS", tmp_path)
    options = argparse.Namespace(save=True, json=True, quick=False)
    figures = {"rows_judged": 3, "rows_not_measurable": 1}
    with pytest.raises(SystemExit) as ended:
        measure.report("accuracy/x", figures, options)
    assert ended.value.code == floors.NOT_MEASURABLE
    assert not list(tmp_path.iterdir())


def test_a_result_names_the_machines_pulse() -> None:
    options = argparse.Namespace(save=False, json=True, quick=True)
    told = measure.report("accuracy/x", {}, options)
    assert set(told["pulse_us"]) == {"arithmetic", "memory", "wakeup"}
    assert min(told["pulse_us"].values()) > 0


def test_a_fifth_of_such_rows_is_borne() -> None:
    assert floors.refusal({"rows_judged": 4, "rows_not_measurable": 1}) is None
    assert floors.refusal({}) is None
