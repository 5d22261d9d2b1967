"""Sweeps of a calibration: whether a line of latency and bandwidth can go through them."""

import pytest

from paceline.measure import Calibration, MeasureError, Sweep


def test_a_sweep_fits_where_larger_sizes_take_longer() -> None:
    assert Sweep((1e3, 2e3, 4e3, 8e3), (20.0, 30.0, 50.0, 90.0)).grows


def test_times_that_fall_with_size_were_disturbed() -> None:
    assert not Sweep((1e3, 2e3, 4e3, 8e3), (90.0, 50.0, 30.0, 20.0)).grows


def test_speeds_are_the_lines_rates_and_a_message_has_its_part_of_the_latency() -> None:
    """Four workers send 3 / 2 of an all-reduce's bytes each, in 6 messages in turn."""
    work = Sweep((1e6, 2e6, 4e6), (1e6, 2e6, 4e6))
    reduce = Sweep((1e6, 2e6, 4e6), (1e6 + 6000, 2e6 + 6000, 4e6 + 6000))
    speeds = Calibration("here", 1, 4, work, work, work, reduce, None).speeds()
    assert speeds.memory_bytes_per_s == pytest.approx(1e9)
    assert speeds.flops_per_s == pytest.approx(1e9)
    assert speeds.wire_bytes_per_s == pytest.approx(1.5e9)
    assert speeds.message_s == pytest.approx(1e-6)


def test_without_an_all_reduce_there_are_no_speeds_of_a_wire() -> None:
    line = Sweep((1e6, 2e6, 4e6), (1e6, 2e6, 4e6))
    with pytest.raises(MeasureError, match="no all-reduce"):
        Calibration("here", 1, 1, line, line, line, None, None).speeds()
