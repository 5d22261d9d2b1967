"""Typical errors are those of the kept benchmark results, where one measures them."""

import json
from collections.abc import Mapping
from pathlib import Path
from statistics import mean
from typing import Any

import numpy as np
import pytest

from paceline.cost import SPREAD, Basis
from paceline.cost.spreads import CARRIED, CARRIED_FLOAT32, FORETOLD
from paceline.graph.work import Family

RESULTS = Path(__file__).parents[2] / "benchmarks" / "results"


def newest(name: str) -> dict[str, Any]:
    """The newest kept result of a whole run."""
    kept = [json.loads(p.read_text()) for p in sorted(RESULTS.glob(f"*-{name}.json"))]
    whole = [found for found in kept if not found["quick"]]
    if not whole:
        pytest.skip(f"no result of a whole run of {name} is kept in benchmarks/results")
    found: dict[str, Any] = whole[-1]
    return found


def test_every_basis_has_a_typical_error_that_grows_with_distrust() -> None:
    told = sorted(Basis)  # by their numbers: a forecast came last, and knows more than a data sheet
    told.remove(Basis.FORECAST)
    errors = [SPREAD[basis] for basis in told]
    assert errors == sorted(errors)
    assert errors[0] > 0
    assert SPREAD[Basis.SCALED] < SPREAD[Basis.FORECAST] < SPREAD[Basis.DATASHEET]


def test_fitted_prices_err_as_the_rules_of_calibration_do_on_average() -> None:
    found = newest("accuracy-megatron")
    rules = [found, *found["other_rules"].values()]
    assert SPREAD[Basis.FITTED] == pytest.approx(mean(r["single_mape"] for r in rules), abs=0.02)


def test_datasheet_prices_err_as_the_uncalibrated_model_does() -> None:
    found = newest("accuracy-megatron")["uncalibrated"]
    assert SPREAD[Basis.DATASHEET] == pytest.approx(found["single_mape"], abs=0.02)


def test_interpolation_adds_little_to_a_measured_table() -> None:
    assert newest("accuracy-collectives")["mean_error"] < SPREAD[Basis.MEASURED]


BY_TABLES = {
    Family.MATRIX: ("linear.bfloat16", "forecasts"),
    Family.CONVOLUTION: ("convolution.float32", "rates"),
    Family.ATTENTION: ("attention.bfloat16", "forecasts"),
}
"""Classes whose pairs of tables are off by more than their pairs of traces, and how predictions
carry them."""


def mean_errors(rows: list[Mapping[str, Mapping[str, Mapping[str, float]]]]) -> dict[str, float]:
    """By class, over pairs of traces, of the sums of its kernels."""
    found: dict[str, list[float]] = {}
    for row in rows:
        for name, ms in row["by_class"].items():
            found.setdefault(name, []).append(abs(ms["predicted_ms"] / ms["measured_ms"] - 1))
    return {name: float(np.mean(errors)) for name, errors in found.items()}


def test_intervals_of_carried_kernels_are_what_pairs_of_traces_were_off_by() -> None:
    measured = mean_errors(newest("accuracy-kernels")["device_rows"])
    for family in CARRIED.keys() - BY_TABLES.keys():
        assert CARRIED[family] == pytest.approx(measured[family.name.lower()], abs=0.02), family
    for family in (Family.MATRIX, Family.ATTENTION):
        assert measured[family.name.lower()] <= CARRIED[family]


def test_intervals_of_carried_products_are_what_pairs_of_tables_were_off_by() -> None:
    found = newest("accuracy-kernel_pairs")
    full = found["carried_linear.float32"]["forecasts"]
    assert pytest.approx(full, abs=0.02) == CARRIED_FLOAT32
    for family, (task, way) in BY_TABLES.items():
        assert CARRIED[family] == pytest.approx(found[f"carried_{task}"][way], abs=0.02), family


def test_intervals_hold_more_than_half_of_what_they_were_not_taken_from() -> None:
    found = newest("accuracy-kernel_pairs")
    for task, _ in BY_TABLES.values():
        held = found[f"interval_{task}"]["held_back"]
        assert held["shapes_inside"] > 0.5
        assert held["sums_inside"] > held["pairs"] / 2


def test_intervals_of_forecasts_are_what_devices_left_out_were_off_by() -> None:
    found = newest("accuracy-kernels")
    for family, figure in (
        (Family.MATRIX, "left_out_linear"),
        (Family.CONVOLUTION, "left_out_convolution"),
        (Family.ATTENTION, "device_out_attention"),
    ):
        assert FORETOLD[family] == pytest.approx(found[figure], abs=0.02)
