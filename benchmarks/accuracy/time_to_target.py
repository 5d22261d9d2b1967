"""Predicted against measured time to accuracy: ten settings of cluster, algorithm and skew.

Each group is one cluster and one partition, and in it algorithms that race to a target. Measured in
the lab with three seeds that no prediction saw, of which the mean; predicted from three other seeds
without the lab.
`mean_error` and `worst_error` are of the times, `round_error` the mean error of a round's time and
`rounds_error` that of the number of rounds, which is how far seeds lie apart; `order_right` is the
share of groups whose fastest algorithm was named. A target that is not reached where it was
predicted to be, or the other way round, counts as an error of 1.

    python benchmarks/accuracy/time_to_target.py --json
"""

import statistics
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

from benchmarks import measure
from benchmarks.accuracy import learning, learning_lab, pipeline_lab
from benchmarks.accuracy.learning_lab import Outcome, Place, Setting

SLOW = Place((0.45, 0.45, 0.45, 0.45), (20.0, 20.0, 20.0, 20.0))
FAST = Place((0.45, 0.45, 0.45, 0.45), (500.0, 500.0, 500.0, 500.0))
UNEVEN = Place((0.8, 0.4, 0.4), (100.0, 100.0, 10.0))
PAIR = Place((0.9, 0.9), (50.0, 50.0))
WHOLE, HALF = "equal", "by_class(skew=0.5)"

SYNCHRONOUS = ("synchronous(lr=0.05)", 400)
LOCAL = ("local_sgd(lr=0.03, steps=10)", 60)
AVERAGED = ("fedavg(lr=0.03, steps=20)", 30)
SPARSE = ("dgc(lr=0.05, ratio=0.02, warmup=0)", 400)
OVERLAPPED = ("overlap_local_sgd(lr=0.02, steps=10)", 60)

GROUPS: tuple[tuple[Place, str, float, tuple[tuple[str, int], ...]], ...] = (
    (SLOW, WHOLE, 0.80, (SYNCHRONOUS, LOCAL)),
    (SLOW, HALF, 0.78, (SYNCHRONOUS, AVERAGED)),
    (FAST, WHOLE, 0.80, (SYNCHRONOUS, AVERAGED)),
    (FAST, HALF, 0.78, (SPARSE, LOCAL)),
    (UNEVEN, WHOLE, 0.80, (SYNCHRONOUS, SPARSE)),
    (UNEVEN, HALF, 0.78, (LOCAL, OVERLAPPED)),
    (PAIR, WHOLE, 0.80, (SYNCHRONOUS, LOCAL)),
    (PAIR, HALF, 0.78, (SPARSE, AVERAGED)),
    (SLOW, WHOLE, 0.82, (SPARSE, OVERLAPPED)),
    (FAST, WHOLE, 0.82, (LOCAL, OVERLAPPED)),
)
"""Ten settings; each is raced by two algorithms."""


def main(arguments: list[str] | None = None) -> dict[str, Any]:
    options = learning.parser(__doc__, waits=True).parse_args(arguments)
    if refused := pipeline_lab.why_not():
        return measure.report("accuracy/time_to_target", {"refused": refused}, options, "torch")
    end, found = time.monotonic() + 60 * options.budget, list[list[Outcome]]()
    for place, partition, target, racers in GROUPS[:1] if options.quick else GROUPS:
        if time.monotonic() > end:
            break
        settings = [Setting(place, text, partition, rounds) for text, rounds in racers]
        found.append([learning_lab.outcome(options, each, target) for each in settings])
    return measure.report("accuracy/time_to_target", summary(found), options, "torch")


def summary(found: Sequence[Sequence[Outcome]]) -> dict[str, Any]:
    """A figure stands once all groups are there."""
    errors = [_error(each) for group in found for each in group]
    right = [_fastest(group, "measured") == _fastest(group, "predicted") for group in found]
    whole, every = len(found) == len(GROUPS), [each for group in found for each in group]
    return {
        "mean_error": round(statistics.mean(errors), 4) if whole else None,
        "worst_error": round(max(errors), 4) if whole else None,
        "round_error": _mean([each.predicted.round.mean_s / each.round_s for each in every]),
        "rounds_error": _mean([_rounds(each) for each in every if each.error is not None]),
        "order_right": round(statistics.mean(right), 3) if whole else None,
        "groups": len(found),
        "missing": len(GROUPS) - len(found),
        "rows": [each.document() for group in found for each in group],
    }


def _mean(ratios: Sequence[float]) -> float | None:
    """How far they lie from 1."""
    return round(statistics.mean(abs(each - 1) for each in ratios), 4) if ratios else None


def _rounds(one: Outcome) -> float:
    """Predicted over measured."""
    rounds, measured_s = one.predicted.reach.rounds, one.measured_s
    assert rounds is not None, "predicted to reach the target"
    assert measured_s is not None, "measured to reach it"
    return rounds * one.round_s / measured_s


def _error(one: Outcome) -> float:
    """1 where one says that the target is reached and the other that it is not."""
    if one.error is not None:
        return abs(one.error)
    return 0.0 if one.measured_s is None and one.predicted.seconds is None else 1.0


def _fastest(group: Sequence[Outcome], which: str) -> str:
    def seconds(one: Outcome) -> float:
        found = one.measured_s if which == "measured" else one.predicted.seconds
        return float("inf") if found is None else found

    return min(group, key=seconds).setting.algorithm


if __name__ == "__main__":
    main()
