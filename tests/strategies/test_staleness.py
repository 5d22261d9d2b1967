"""A plan says when the job is no longer as it was predicted."""

import pytest

from paceline.strategies.plan import Predicted
from paceline.strategies.staleness import SETTLED, WINDOW, Drift

EXPECTED = Predicted(100_000_000, 90_000_000, 110_000_000, 1e8)


def after(step_ns: int, steps: int = SETTLED + WINDOW) -> str:
    drift = Drift(EXPECTED)
    for _ in range(steps):
        drift.step(step_ns)
    return drift.stale


@pytest.mark.parametrize("step_ns", [90_000_000, 100_000_000, 118_000_000])
def test_steps_as_predicted_leave_the_plan_fresh(step_ns: int) -> None:
    assert after(step_ns) == ""


def test_steps_beyond_the_interval_make_it_stale_either_way() -> None:
    assert "longer than the 90.0 to 110.0 ms" in after(150_000_000)
    assert "shorter" in after(50_000_000)


def test_a_plan_that_exchanges_every_fourth_step_is_judged_by_its_mean() -> None:
    drift = Drift(EXPECTED)
    for at in range(100):
        drift.step(280_000_000 if at % 4 == 3 else 40_000_000)
    assert drift.stale == ""


def test_a_few_steps_and_the_first_ones_tell_nothing() -> None:
    assert after(150_000_000, SETTLED + WINDOW - 1) == ""
    drift = Drift(EXPECTED)
    for at in range(SETTLED + WINDOW):
        drift.step(900_000_000 if at < SETTLED else 100_000_000)
    assert drift.stale == ""


def test_a_step_is_the_median_of_the_means_of_eight_among_the_latest_forty() -> None:
    """Steps of 1 to 70 ns: of 31 to 70 the means are 34.5, 42.5, 50.5, 58.5 and 66.5."""
    drift = Drift(EXPECTED)
    assert drift.step_ns == 0
    for step_ns in range(1, 71):
        drift.step(step_ns)
    assert drift.step_ns == 50.5


def test_one_burst_leaves_the_plan_fresh_and_a_lasting_change_does_not() -> None:
    drift = Drift(EXPECTED)
    for at in range(200):
        drift.step(900_000_000 if at % 40 < 3 else 100_000_000)
    assert drift.stale == ""
    for _ in range(WINDOW):
        drift.step(160_000_000)
    assert "tune it again" in drift.stale
