"""Forecasts beside kernels measured on an H100 and an H200, from which nothing was fitted."""

from pathlib import Path

import numpy as np
import pytest

from paceline.cluster.files import device
from paceline.cost.forecast import forecast, keys, sheet_of
from paceline.cost.forecast.sampled_works import works_in
from paceline.cost.forecast.sheet import Vendor
from paceline.cost.forecast.tables import samples
from paceline.graph import DType

MEASURED = Path(__file__).parents[2] / "benchmarks" / "results" / "gpu"


def test_batched_products_in_sixteen_bits_go_by_single_ones_before_those_of_float32() -> None:
    found = keys("bmm", DType.BFLOAT16, Vendor.NVIDIA)
    assert found.index("linear.bfloat16.nvidia") < found.index("bmm.float32.nvidia")
    assert "linear.float32.nvidia" not in keys("bmm", DType.FLOAT32, Vendor.NVIDIA)


@pytest.mark.parametrize("name", ["h100", "h200"])
@pytest.mark.parametrize(("task", "most"), [("linear", 0.2), ("bmm", 0.3)])
def test_products_in_bfloat16_are_forecast_as_measured(name: str, task: str, most: float) -> None:
    (sample,) = samples(MEASURED / name / "kernels")[f"{task}.bfloat16.nvidia"]
    works = works_in(task, sample.rows(np.arange(len(sample.seconds))))
    told = forecast(works, sheet_of(device(name))).dur_ns / 1e9
    assert np.abs(told / sample.seconds - 1).mean() < most
