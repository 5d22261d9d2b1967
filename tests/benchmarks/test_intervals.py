"""Intervals of carried kernels, tested against pairs of devices that both were measured."""

from pathlib import Path

import numpy as np
import pytest
from benchmarks.accuracy.kernel_pairs import Carried, held_share, intervals
from benchmarks.accuracy.kernel_traces import pair_figures


def pair(one: str, other: str, *ratio: float) -> Carried:
    found = np.array(ratio)
    return Carried(frozenset((one, other)), 0.17, found, float(found.mean()))


def test_an_interval_holds_what_lies_within_it_to_either_side() -> None:
    told = held_share([pair("a", "b", 1.0, 1.2, 0.84, 1.3, 0.7)], [0.2])
    assert told == {"pairs": 1, "spread": 0.2, "shapes_inside": 0.6, "sums_inside": 1}


def test_what_is_held_back_is_judged_by_pairs_of_other_devices_alone() -> None:
    pairs = [pair("a", "b", 2.0, 2.0), pair("c", "d", 1.1, 1.1), pair("a", "c", 9.0)]
    told = intervals(pairs)["held_back"]
    assert told["pairs"] == 2, "every pair shares a device with the last"
    assert told["spread"] == pytest.approx((0.1 + 1.0) / 2)
    assert told["shapes_inside"] == 0.5, "100 % holds 1.1, and 10 % does not hold 2"


def test_sums_of_kernels_on_the_other_vendors_device_lie_in_the_interval(
    real_traces: Path,
) -> None:
    found = pair_figures(real_traces / "h100-mi300x")["interval_held"]
    assert found["sums"] == found["of_sums"] == 4
    assert found["classes"] / found["of_classes"] >= 0.6
