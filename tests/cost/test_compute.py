"""Kernels: the roofline's two sides."""

import numpy as np
import pytest

from paceline.cluster import ClusterError
from paceline.cluster.files import device
from paceline.cost.compute import Efficiency, roofline_ns
from paceline.graph import DType

IDEAL = Efficiency(arithmetic=1.0, memory=1.0, ramp_ns=0.0, launch_ns=0.0)


def one(value: float) -> np.ndarray:
    return np.array([value], np.int64)


def test_a_kernel_takes_the_longer_of_arithmetic_and_traffic() -> None:
    a100 = device("a100-80")
    busy = roofline_ns(one(312e9), one(1), DType.FLOAT16, a100, IDEAL)
    moved = roofline_ns(one(1), one(2039e6), DType.FLOAT16, a100, IDEAL)
    assert busy[0] == pytest.approx(1e6)
    assert moved[0] == pytest.approx(1e6)


def test_shares_and_ramp_lengthen_a_kernel() -> None:
    half = Efficiency(arithmetic=0.5, memory=1.0, ramp_ns=3000.0, launch_ns=0.0)
    took = roofline_ns(one(312e9), one(1), DType.FLOAT16, device("a100-80"), half)
    assert took[0] == pytest.approx(2e6 + 3000)


def test_an_element_type_without_a_rate_is_refused() -> None:
    with pytest.raises(ClusterError, match=r"no rate for float8; it has float64"):
        roofline_ns(one(1), one(1), DType.FLOAT8, device("v100"), IDEAL)


@pytest.mark.parametrize(
    ("name", "dtype", "least_us"),
    [
        ("gc200", DType.FLOAT16, 4000.0),
        ("tpu-v4", DType.BFLOAT16, 3636.4),
        ("tpu-v5e", DType.BFLOAT16, 5076.1),
        ("gaudi-3", DType.BFLOAT16, 545.0),
        ("trainium2", DType.BFLOAT16, 1499.3),
    ],
)
def test_a_product_on_an_accelerator_takes_its_arithmetic_at_the_sheets_rate(
    name: str, dtype: DType, least_us: float
) -> None:
    whole = Efficiency(arithmetic=1.0, memory=1.0, ramp_ns=0.0, launch_ns=0.0)
    flops, size = np.array([10**12]), np.array([10**6])
    assert roofline_ns(flops, size, dtype, device(name), whole)[0] / 1e3 == pytest.approx(
        least_us, rel=1e-4
    )


def test_a_tpu_has_no_rate_for_float32_and_says_what_it_has() -> None:
    none = np.array([1]), np.array([1])
    whole = Efficiency(1.0, 1.0, 0.0, 0.0)
    with pytest.raises(ClusterError, match="no rate for float32; it has bfloat16, int8"):
        roofline_ns(*none, DType.FLOAT32, device("tpu-v4"), whole)
