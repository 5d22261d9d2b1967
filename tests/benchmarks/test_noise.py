"""The rows of `benchmarks/accuracy/noise.py`: planned once each, judged by kind."""

import pytest

pytest.importorskip("torch")

from benchmarks.accuracy.noise import figures
from benchmarks.accuracy.noise_rows import PAIRS, UNCHANGED, pairs_of, planned


def cell(kind: str, error: float, floor: float = 0.0) -> dict[str, object]:
    return {"kind": kind, "error": error, "floor": floor}


def test_rows_are_planned_once_each_and_in_the_same_order_every_time() -> None:
    names = [row.name for row in planned()]
    assert len(set(names)) == len(names)
    assert names == [row.name for row in planned()]


def test_figures_are_of_each_kind_over_the_rows_that_can_be_judged() -> None:
    rows = {
        "a": {"cells": [cell("self", -0.04), cell("self", 0.02)]},
        "b": {"cells": [cell("retarget", 0.5, floor=0.07), cell("retarget", 0.03, floor=0.05)],
              "work_errors": [0.01, -0.03]},
        "c": {"alarms": [False, True, False, False]},
    }  # fmt: skip
    found = figures(rows)
    assert (found["self_mean"], found["self_worst"]) == (0.03, 0.04)
    assert (found["retarget_mean"], found["retarget_not_measurable"]) == (0.03, 1)
    assert (found["work_error"], found["work_worst"]) == (0.02, 0.03)
    assert (found["false_alarms"], found["pairs"]) == (0.25, 4)
    assert (found["rows_judged"], found["rows_not_measurable"]) == (3, 1)
    assert "crowded_mean" not in found


def test_pairs_are_different_and_enough() -> None:
    drawn = pairs_of(13, PAIRS // len(UNCHANGED) + 1)
    assert len(set(drawn)) == len(drawn) >= PAIRS / len(UNCHANGED)
    assert all(a < b < 13 for a, b in drawn)
