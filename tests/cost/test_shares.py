"""Recorded kernels keep their share of what was forecast for them."""

from dataclasses import replace

import numpy as np
import pytest

from paceline.cluster import Device
from paceline.cluster.files import device
from paceline.cost.forecast import Constants, forecast, sheet_of, shipped
from paceline.cost.forecast.pairs import forecast_both, taught
from paceline.cost.ported import Kernels, by_rates_ns, ported_ns, share_factor
from paceline.graph import DType
from paceline.graph.work import (
    Elements,
    Launch,
    Matrix,
    Recorded,
    Work,
    matrix,
    pointwise,
    unknown,
)

PRODUCT = matrix(Matrix(1, 4096, 4096, 4096), DType.BFLOAT16)
H100, H200, MI300X = device("h100"), device("h200"), device("mi300x")


def forecast_ns(work: Work, on: Device) -> float:
    return float(forecast([work], sheet_of(on)).dur_ns[0])


def recorded(work: Work, dur_ns: float, share: float = 1.0) -> Kernels:
    told = Recorded("aten::mm", work, Launch(10_000, 256))
    return Kernels(np.array([round(dur_ns)]), np.array([0]), np.array([share]), [told])


def carried(work: Work, dur_ns: float, *devices: Device) -> float:
    return float(ported_ns(recorded(work, dur_ns), *devices)[0])


def test_a_product_takes_its_share_of_the_forecast_there() -> None:
    here, there = forecast_ns(PRODUCT, H100), forecast_ns(PRODUCT, H200)
    assert carried(PRODUCT, 1.3 * here, H100, H200) == pytest.approx(1.3 * there, rel=1e-3)


def test_parts_of_a_call_keep_the_shares_that_they_had() -> None:
    here, there = forecast_ns(PRODUCT, H100), forecast_ns(PRODUCT, H200)
    part = ported_ns(recorded(PRODUCT, 0.3 * here, 0.3), H100, H200)
    assert float(part[0]) == pytest.approx(0.3 * there, rel=1e-3)


def test_a_kernel_that_the_forecast_does_not_describe_goes_by_rates() -> None:
    for dur in (0.4, 2.5):
        kernels = recorded(PRODUCT, dur * forecast_ns(PRODUCT, H100))
        assert np.isnan(share_factor(kernels, H100, H200)).all()
        assert ported_ns(kernels, H100, H200) == pytest.approx(by_rates_ns(kernels, H100, H200))


def test_a_vendor_whose_devices_taught_nothing_of_a_type_has_no_forecast() -> None:
    assert taught(PRODUCT, sheet_of(H100), shipped())
    assert not taught(PRODUCT, sheet_of(MI300X), shipped())
    both = forecast_both([PRODUCT], sheet_of(H100), sheet_of(MI300X))
    assert np.isnan(both.here_ns).all()
    kernels = recorded(PRODUCT, forecast_ns(PRODUCT, H100))
    assert np.isnan(share_factor(kernels, H100, MI300X)).all()


def test_a_device_built_from_its_recording_has_no_data_sheet_to_forecast_by() -> None:
    built = replace(H100, reached=True)
    kernels = recorded(PRODUCT, forecast_ns(PRODUCT, H100))
    assert np.isnan(share_factor(kernels, built, H200)).all()
    assert np.isnan(share_factor(kernels, H200, built)).all()


def test_a_device_known_by_name_is_not_set_beside_one_that_is_not() -> None:
    key = "linear.bfloat16.nvidia"
    alike = shipped().alike_to(("h100", "h200")).learned[key]
    assert alike.known is shipped().learned[key].known
    other = shipped().alike_to(("h100", "l4")).learned[key]
    assert other.known is None
    assert other.net is shipped().learned[key].net


def test_work_that_is_not_known_has_no_forecast() -> None:
    unfit = [unknown(), pointwise(Elements(8), DType.FLOAT32)]
    both = forecast_both(unfit, sheet_of(H100), sheet_of(H200), Constants({}))
    assert np.isnan(both.here_ns).all()


def test_what_is_recorded_on_a_device_keeps_its_time_there() -> None:
    dur = 1.2 * forecast_ns(PRODUCT, H100)
    assert carried(PRODUCT, dur, H100, H100) == pytest.approx(dur, rel=1e-3)
