"""Typical errors are those of the kept benchmark results, where one measures them."""

import json
from pathlib import Path
from statistics import mean
from typing import Any

import pytest

from paceline.cost import SPREAD, Basis

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
