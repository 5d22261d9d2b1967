"""What was measured of strategies and is kept with the package."""

import json

from paceline.strategies import parse
from paceline.strategies.accuracy import LearningCost, costs_in


def test_costs_of_settings_that_there_no_longer_are_do_not_count() -> None:
    cost = {"points": 0.5, "error_points": 0.1, "seeds": 3}
    texts = ("gone(ratio=2)", "fp16", "local_sgd(no_such_setting=1)")
    learned = json.dumps({"date": "2026-11-23", "costs": dict.fromkeys(texts, cost)})
    assert costs_in(learned.encode()) == {parse("fp16"): LearningCost(0.5, 0.1, 3)}
