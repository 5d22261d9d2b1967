"""A plan against the best of what users do by hand, from rounds made up here."""

import pytest
from benchmarks.accuracy import by_hand

from paceline.strategies import Effect

ROUND = {
    "plain": 100.0, "bucket_cap_mb=1": 80.0, "bucket_cap_mb=5": 100.0, "bucket_cap_mb=10": 100.0,
    "bucket_cap_mb=25": 102.0, "bucket_cap_mb=50": 100.0, "ZeroRedundancyOptimizer": 125.0,
    "fp16 hook": 50.0, "PowerSGD hook": 200.0,
}  # fmt: skip


def test_a_plan_is_set_against_the_best_choice_that_its_effect_allows() -> None:
    exact = by_hand.versus(1.5, Effect.EXACT, [ROUND] * 4)
    assert (exact["best_hand"], exact["vs_hand"]) == ("bucket_cap_mb=1", pytest.approx(1.5 / 1.25))
    lossy = by_hand.versus(1.5, Effect.LOSSY, [ROUND] * 4)
    assert (lossy["best_hand"], lossy["vs_hand"]) == ("fp16 hook", pytest.approx(0.75))
    assert lossy["hand_noise"] == pytest.approx(0.02)


def test_where_no_choice_helps_a_plan_is_set_against_the_plain_job() -> None:
    slow = {name: 100.0 if name == "plain" else 110.0 for name in ROUND}
    assert by_hand.versus(1.0, Effect.LOSSY, [slow] * 4)["best_hand"] == "plain"


def test_who_was_lucky_in_the_rounds_that_name_the_best_is_measured_by_the_others() -> None:
    lucky = ROUND | {"ZeroRedundancyOptimizer": 40.0}
    found = by_hand.versus(1.5, Effect.EXACT, [lucky, ROUND, lucky, ROUND])
    assert found["best_hand"] == "ZeroRedundancyOptimizer"
    assert found["vs_hand"] == pytest.approx(1.5 / 0.8)
