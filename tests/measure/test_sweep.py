"""Sweeps of a calibration: whether a line of latency and bandwidth can go through them."""

from paceline.measure import Sweep


def test_a_sweep_fits_where_larger_sizes_take_longer() -> None:
    assert Sweep((1e3, 2e3, 4e3, 8e3), (20.0, 30.0, 50.0, 90.0)).grows


def test_times_that_fall_with_size_were_disturbed() -> None:
    assert not Sweep((1e3, 2e3, 4e3, 8e3), (90.0, 50.0, 30.0, 20.0)).grows
