"""The figures of the plans that ran in the lab: order and correlation."""

import pytest
from benchmarks.accuracy import plans
from benchmarks.accuracy.plans_rows import SMALL, jobs, planned, recorded

from paceline.imagine.decoder import Sharding


def rows(*pairs: tuple[float, float]) -> list[dict[str, float]]:
    return [{"predicted_s": told, "median_s": took} for told, took in pairs]


def test_plans_that_take_as_long_may_come_in_any_order() -> None:
    assert plans.ordered(rows((1.0, 1.02), (1.1, 1.0), (2.0, 2.0))) == 1
    assert plans.ordered(rows((3.0, 1.0), (2.0, 2.0), (4.0, 4.0))) == pytest.approx(2 / 3)


def test_correlation_is_of_ranks() -> None:
    assert plans.correlation(rows((1, 10), (2, 20), (3, 1000))) == pytest.approx(1)
    assert plans.correlation(rows((3, 10), (2, 20), (1, 1000))) == pytest.approx(-1)


def test_every_plan_takes_four_workers_and_no_two_are_the_same() -> None:
    made = list(jobs(SMALL))
    assert {job.degrees.world for job in made} == {4}
    assert len({(job.degrees, job.recipe.sharding) for job in made}) == len(made)
    assert {job.recipe.sharding for job in made} >= {Sharding.NONE, Sharding.FULL}


def test_rows_are_planned_once_each_and_in_the_same_order_every_time() -> None:
    names = [one.name for one in planned()]
    assert len(set(names)) == len(names) == 11 * (2 + 1)
    assert names == [one.name for one in planned()]


def test_what_was_recorded_is_the_same_when_it_is_read_again() -> None:
    passes = {"forward_ns": 3e6, "backward_ns": 6e6}
    told = {"layer": passes, "first": passes, "last": passes, "update_ns": 2e7, "kept": 1.1,
            "fused_attention": True}  # fmt: skip
    found = recorded(SMALL, told)
    assert found.spent is not None
    assert found.spent.layer.backward_ns == 6e6
    assert (found.model, found.habits.kept) == (SMALL.model, 1.1)
