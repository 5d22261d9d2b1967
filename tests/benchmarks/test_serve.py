"""The rows of `benchmarks/speed/serve.py`: planned once each, all divisions tried."""

import pytest

pytest.importorskip("torch")

from benchmarks.speed.serve import summary
from benchmarks.speed.serve_rows import configurations, planned


def test_rows_are_planned_once_each_and_in_the_same_order_every_time() -> None:
    names = [row.name for row in planned()]
    assert len(set(names)) == len(names) == 3 * 7
    assert names == [row.name for row in planned()]


def test_a_batch_is_divided_among_all_sets_of_instances_once_each() -> None:
    found = [tuple((one.threads, one.batch) for one in each) for each in configurations(2, 3)]
    assert sorted(found) == [((1, 2), (1, 1)), ((1, 3),), ((2, 3),)]


def test_figures_are_of_the_rows_that_there_are() -> None:
    row = {"gap": 0.01, "noise": 0.02, "vs_one_instance": 1.2, "vs_plain": 1.0}
    found = summary([row, {**row, "gap": 0.04, "vs_one_instance": 0.98}])
    assert (found["gap_to_brute_force"], found["vs_one_instance_worst"]) == (0.04, 0.98)
    assert summary([]) == {}
