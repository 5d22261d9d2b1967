"""Kernels: the roofline's two sides, and Habitat's rule for another GPU."""

import numpy as np
import pytest

from paceline.cluster import ClusterError, Device
from paceline.cluster.files import device
from paceline.cost.compute import (
    Efficiency,
    memory_share,
    one_wave_ns,
    roofline_ns,
    wave_scaled_ns,
)
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


def test_a_memory_bound_kernel_scales_with_bandwidth_alone() -> None:
    v100, a100 = device("v100"), device("a100-80")
    took = wave_scaled_ns(one(1_000_000), one(0), one(0), DType.FLOAT32, v100, a100)
    assert took[0] == pytest.approx(1e6 * 900 / 2039)


def test_gamma_is_one_without_arithmetic_a_half_at_the_ridge_and_falls_beyond() -> None:
    plain = Device("plain", memory_bytes_per_s=1e9, flops_per_s={DType.FLOAT32: 10e9})
    flops = np.array([0, 5_000, 10_000, 20_000], np.int64)
    share = memory_share(flops, np.full(4, 1000), DType.FLOAT32, plain)
    assert share.tolist() == [1.0, 0.75, 0.5, 0.25]


def test_the_published_formula_at_the_ridge() -> None:
    origin = Device("o", memory_bytes_per_s=2e9, units=10, clock_hz=1e9)
    target = Device(
        "d", memory_bytes_per_s=4e9, units=40, clock_hz=2e9, flops_per_s={DType.FLOAT32: 4e9}
    )
    took = wave_scaled_ns(one(1000), one(100), one(100), DType.FLOAT32, origin, target)
    assert took[0] == pytest.approx(1000 * (2 / 4) ** 0.5 * (1 / 2 * 10 / 40) ** 0.5)


def test_a_kernel_of_one_wave_scales_with_the_clock() -> None:
    slow, fast = Device("s", units=10, clock_hz=1e9), Device("f", units=40, clock_hz=2e9)
    assert one_wave_ns(1000, 8, slow, fast) == 500
    assert one_wave_ns(1000, 20, slow, fast) == 250  # two waves become one


def test_a_device_without_clock_cannot_be_scaled_to() -> None:
    with pytest.raises(ClusterError, match="b200 has no clock_hz"):
        wave_scaled_ns(one(1), one(0), one(0), DType.FLOAT16, device("a100-80"), device("b200"))
