"""Lines, curves and coefficients are recovered from what they made."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paceline.cost import CostError, Curve
from paceline.cost.curve import CurveError, ten_sizes
from paceline.cost.fit import Coefficient, fit_coefficients, fit_line


@settings(deadline=None, max_examples=50)
@given(st.floats(1, 1e6), st.floats(1e6, 1e12))
def test_a_line_is_recovered_from_its_own_points(latency_ns: float, bytes_per_s: float) -> None:
    middle = latency_ns * bytes_per_s / 1e9  # where latency and transfer are equally long
    sizes = [middle * x for x in (0.1, 0.5, 1, 2, 10)]
    line = fit_line(sizes, [latency_ns + s / bytes_per_s * 1e9 for s in sizes])
    assert line.latency_ns == pytest.approx(latency_ns, rel=1e-6)
    assert line.bytes_per_s == pytest.approx(bytes_per_s, rel=1e-6)
    assert line.latency_half_ns < 1e-4 * latency_ns


def test_noise_widens_the_interval_which_holds_the_truth_nine_times_in_ten() -> None:
    draw, held = np.random.default_rng(1), 0
    sizes = np.geomspace(1e3, 1e7, 10)
    for _ in range(400):
        times = (5000 + sizes) * draw.normal(1, 0.05, len(sizes))
        line = fit_line(sizes.tolist(), times.tolist())
        held += abs(line.latency_ns - 5000) <= line.latency_half_ns
    assert 0.85 <= held / 400 <= 0.95


def test_a_line_needs_three_sizes_and_growing_times() -> None:
    with pytest.raises(CostError, match="3 sizes"):
        fit_line([1, 2, 2], [1, 2, 2])
    with pytest.raises(CostError, match="do not grow"):
        fit_line([1, 2, 3], [3, 2, 1])


def test_a_curve_passes_through_its_points_and_goes_on_as_its_last_line() -> None:
    curve = Curve.through([30, 10, 20], [50, 10, 20])
    assert curve.at(np.array([5.0, 10, 15, 20, 25, 30, 40])).tolist() == [
        10,
        10,
        15,
        20,
        35,
        50,
        80,
    ]


@pytest.mark.parametrize(("sizes", "times"), [([1], [1]), ([1, 1], [1, 2]), ([1, 2], [0, 1])])
def test_bad_points_are_refused(sizes: list[float], times: list[float]) -> None:
    with pytest.raises(CurveError, match="a curve needs"):
        Curve.through(sizes, times)


def test_ten_sizes_run_from_the_first_to_the_last() -> None:
    chosen = ten_sizes([float(s) for s in range(1, 1025)])
    assert (chosen[0], chosen[-1], len(chosen)) == (0, 1023, 10)


def test_coefficients_are_found_where_rows_tell_and_stay_typical_where_they_do_not() -> None:
    known = [Coefficient("slope", 1.0, 2.0), Coefficient("silent", 3.0, 0.5)]
    x = np.array([1.0, 2.0, 4.0])
    found = fit_coefficients(known, lambda c: c["slope"] * x, 2.5 * x)
    assert found["slope"] == pytest.approx(2.5, rel=0.02)
    assert found["silent"] == pytest.approx(3.0)


def test_a_cap_holds_and_one_odd_row_does_not_rule() -> None:
    x = np.array([1.0, 2.0, 4.0, 8.0, 16.0])
    odd = x * np.array([1, 1, 1, 1, 3])
    share = fit_coefficients(
        [Coefficient("share", 0.5, 3.0, most=1.0)], lambda c: c["share"] * x, odd
    )
    assert share["share"] == pytest.approx(1.0, abs=0.06)
