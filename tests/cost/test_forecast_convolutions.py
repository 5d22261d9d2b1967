"""Convolutions of a training: both gradients in one call, and float32 that rounds to TF32."""

import pytest

from paceline.cluster.files import device
from paceline.cost.forecast import Timed, forecast, forecastable, sheet_of
from paceline.graph.kinds import DType
from paceline.graph.work import Convolution, Matrix, Way, Work, convolution, matrix

IMAGES = Convolution(128, 256, 256, 784, 784, 9, 1)
TF32, FLOAT32 = DType.TFLOAT32, DType.FLOAT32


def ns(work: Work, on: str = "h100", timed: Timed = Timed.KERNEL) -> float:
    return float(forecast([work], sheet_of(device(on)), timed=timed).dur_ns[0])


@pytest.mark.parametrize("timed", Timed)
def test_both_gradients_in_one_call_are_two_convolutions(timed: Timed) -> None:
    whole, one = (ns(convolution(IMAGES, FLOAT32, way), timed=timed)
                  for way in (Way.BACKWARD, Way.BACKWARD_WEIGHT))  # fmt: skip
    assert whole == pytest.approx(2 * one, rel=1e-3)
    assert one == pytest.approx(ns(convolution(IMAGES, FLOAT32), timed=timed), rel=1e-3)


def test_one_in_tf32_lies_between_those_of_both_types() -> None:
    low, rounded, whole = (ns(convolution(IMAGES, one)) for one in (DType.BFLOAT16, TF32, FLOAT32))
    assert 1.3 * low < rounded < whole / 1.5


@pytest.mark.parametrize("on", ["v100", "t4", "p4"])
def test_a_device_without_tf32_computes_it_in_float32(on: str) -> None:
    assert ns(convolution(IMAGES, TF32), on) == ns(convolution(IMAGES, FLOAT32), on)


def test_of_products_in_tf32_no_table_tells() -> None:
    sheet = sheet_of(device("h100"))
    assert forecastable(convolution(IMAGES, TF32), sheet)
    assert not forecastable(matrix(Matrix(1, 512, 512, 512), TF32), sheet)
