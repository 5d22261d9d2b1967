"""Learning curves carried on: the round of a target that a run's beginning does not reach.

A softmax regression learns Fashion-MNIST by four algorithms on four clients, three seeds. Of each
run the first quarter, and the first half, are carried on to accuracies that the whole run has at
one and a half, two and three and a half times that length. `median_error` and `mean_error` are of
the rounds; `within` is the share of true rounds inside the interval of 5 to 95 %; `unsaid` are
targets that were said to be out of reach. The prior of `learn.law` was chosen on convolutional
networks with seed 11, which is not among these.

    python benchmarks/accuracy/curves.py --json
"""

import statistics
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

import numpy as np

from benchmarks import measure
from benchmarks.accuracy import learning
from paceline.learn import LearnRun, Task, algorithm, run, split
from paceline.learn.curve import Curve, reach_of
from paceline.learn.partition import how
from paceline.learn.softmax import Softmax

SEEDS = (21, 22, 23)
SAMPLES, TEST_SAMPLES, CLIENTS = 12000, 2000, 4
HALF = "by_class(skew=0.5)"
RUNS = (
    ("synchronous(lr=0.005)", "equal", 400, 5),
    ("local_sgd(lr=0.002, steps=10)", HALF, 60, 1),
    ("fedavg(lr=0.005, steps=10)", HALF, 60, 1),
    ("gaia(lr=0.005)", HALF, 300, 5),
)
"""Algorithm, partition, rounds, rounds from one judgement to the next."""
SHARES, FARTHER = (0.25, 0.5), (1.5, 2.0, 3.5)
LEAST_GAIN = 0.002
"""A target this much above what was seen asks for more than the beginning shows."""

Row = dict[str, Any]


def main(arguments: list[str] | None = None) -> dict[str, Any]:
    options = learning.parser(__doc__).parse_args(arguments)
    seeds = SEEDS[:1] if options.quick else SEEDS
    rows = [row for seed in seeds for row in _rows(options.data, seed)]
    return measure.report("accuracy/curves", summary(rows), options)


def summary(rows: list[Row]) -> dict[str, Any]:
    said = [row for row in rows if row["rounds"] is not None]
    errors = [abs(row["rounds"] / row["true"] - 1) for row in said]
    return {
        "median_error": round(statistics.median(errors), 4) if errors else None,
        "mean_error": round(statistics.mean(errors), 4) if errors else None,
        "within": round(sum(row["within"] for row in rows) / max(1, len(rows)), 3),
        "unsaid": len(rows) - len(said),
        "rows": rows,
    }


def _rows(folder: Path, seed: int) -> Iterator[Row]:
    train, test = learning.samples(folder, SAMPLES, TEST_SAMPLES)
    learner = Softmax(train, test)
    for text, partition, rounds, every in RUNS:
        parts = split(train, CLIENTS, how(partition), seed)
        task = Task(learner, parts, algorithm(text), rounds, seed, every=every,
                    test_samples=TEST_SAMPLES)  # fmt: skip
        for row in _carried(run(task)):
            yield {"algorithm": text, "seed": seed, **row}


def _carried(made: LearnRun) -> Iterator[Row]:
    whole = Curve.of(made)
    for share in SHARES:
        count = int(share * len(whole.rounds))
        seen = Curve(whole.rounds[:count], whole.accuracy[:count], whole.error)
        for times in FARTHER:
            target = float(np.interp(times * seen.rounds[-1], whole.rounds, whole.level))
            true = whole.crossing(target)
            if share * times > 1 or target < seen.level[-1] + LEAST_GAIN or true is None:
                continue
            found = reach_of([seen], target)
            high = float("inf") if found.high is None else found.high
            within = found.low is not None and found.low <= true <= high
            told = {"share": share, "target": round(target, 4), "true": true}
            yield {**told, "rounds": found.rounds, "low": found.low, "high": found.high,
                   "within": within}  # fmt: skip


if __name__ == "__main__":
    main()
