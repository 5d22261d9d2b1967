"""What two runs of one setting tell of chance."""

import pytest
from benchmarks.accuracy.settings import floor, summary


def test_runs_that_differ_say_so_however_steady_each_is() -> None:
    assert floor([[1.0] * 16, [1.1] * 16]) == pytest.approx(0.1 / 1.05, abs=1e-3)


def test_steps_that_vary_say_so_in_a_single_run() -> None:
    steady, shaky = [[1.0, 1.0, 1.0, 1.0] * 4], [[1.0] * 4 + [1.2] * 4 + [1.0] * 4 + [1.2] * 4]
    assert floor(steady) == 0
    assert floor(shaky) == pytest.approx(0.1, abs=0.02)


def test_rows_that_cannot_be_judged_stay_in_the_table_and_out_of_its_mean() -> None:
    row = {"recorded": "a", "predicted": "b", "error": 0.02, "floor": 0.01}
    told = summary([row, {**row, "error": 0.5, "floor": 0.2}], "any", 0.12)
    assert told["any_mean_error"] == told["any_worst_error"] == 0.02
    assert (told["any_count"], told["any_not_measurable"]) == (1, 1)
    assert len(told["any_rows"]) == 2
