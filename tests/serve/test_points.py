"""Latency between and beyond what was measured."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paceline.serve import Latency, Point, ServeError
from paceline.serve.interference import Interference
from paceline.serve.profile import sizes


def point(threads: int, batch: int, ns: float, crowded: bool = False) -> Point:
    return Point(threads, batch, ns, ns, ns, 1, crowded)


def test_a_point_is_the_median_of_its_runs_with_their_spread() -> None:
    made = Point.of(2, 4, [float(n) for n in range(11)])
    assert (made.median_ns, made.low_ns, made.high_ns, made.runs) == (5.0, 1.0, 9.0, 11)


def test_between_batches_time_is_a_straight_line_and_beyond_it_grows_in_proportion() -> None:
    latency = Latency([point(1, 1, 10.0), point(1, 4, 40.0), point(1, 8, 60.0)])
    assert [latency.ns(1, batch) for batch in (1, 2, 6, 16)] == [10.0, 20.0, 50.0, 120.0]


def test_work_that_is_divided_and_work_that_is_not_are_met_exactly_between_threads() -> None:
    latency = Latency([point(t, 1, 10 + 80 / t) for t in (1, 2, 8)])
    assert latency.ns(4, 1) == pytest.approx(30.0)
    assert latency.ns(16, 1) == latency.ns(8, 1)


def test_nothing_measured_is_an_error() -> None:
    with pytest.raises(ServeError, match="at least one measured point"):
        Latency([])


@settings(deadline=None)
@given(st.integers(1, 8), st.integers(1, 64))
def test_neighbours_never_make_an_instance_faster(threads: int, batch: int) -> None:
    alone = Latency([point(1, 1, 10.0), point(1, 8, 80.0)])
    crowd = Interference.of(alone, [point(1, 1, 9.0, True), point(1, 8, 120.0, True)])
    assert 1.0 <= crowd.factor(threads, batch) <= 1.5


def test_interference_moves_with_the_logarithm_of_the_batch() -> None:
    alone = Latency([point(1, 1, 10.0), point(1, 4, 40.0)])
    crowd = Interference.of(alone, [point(1, 1, 10.0, True), point(1, 4, 80.0, True)])
    assert crowd.factor(1, 2) == pytest.approx(1.5)


def test_sizes_are_powers_of_two_and_the_most() -> None:
    assert sizes(12) == (1, 2, 4, 8, 12)
    assert sizes(1) == (1,)
    with pytest.raises(ServeError, match="1 or more"):
        sizes(0)
