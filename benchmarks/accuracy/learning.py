"""Runs of `paceline.learn` for benchmarks: trained one by one, kept, and not trained twice.

A run is told by an `Arm` and a seed. What comes of it (accuracy and bytes by round, not the rounds
themselves) is kept in `results/learning-rows.json` under both, so that a benchmark which was cut
short goes on where it ended. Accuracies and bytes do not depend on how busy the machine is.
"""

import argparse
import json
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

from benchmarks import measure
from paceline.learn import Chances, LearnRun, Samples, Task, algorithm, fashion_mnist, run, split
from paceline.learn.message import SERVER
from paceline.learn.partition import how
from paceline.learn.torch_workers import network

KEPT = measure.RESULTS / "learning-rows.json"
DATA = Path(__file__).parents[3] / "shared" / "data" / "fashion-mnist"
SEEDS = (1, 2, 3)
TEST_SAMPLES = 4000

Row = dict[str, Any]


@dataclass(frozen=True)
class Arm:
    """What is trained, but for the seed."""

    algorithm: str
    partition: str
    rounds: int
    model: str = "cnn-group-norm"
    clients: int = 5
    per_round: int = 0
    samples: int = 60000
    every: int = 10
    steps: int = 0  # that a client takes in all; 0: as many as the rounds have

    def text(self, seed: int) -> str:
        return json.dumps({**asdict(self), "seed": seed}, sort_keys=True)


def parser(about: str, *, waits: bool = False) -> argparse.ArgumentParser:
    """`waits`: where figures are of time."""
    made = measure.parser(about, waits=waits)
    made.add_argument("--data", type=Path, default=DATA, help="the folder of Fashion-MNIST")
    made.add_argument("--budget", type=float, default=60.0, metavar="MINUTES")
    made.add_argument("--again", action="store_true", help="train anew what is kept")
    return made


def rows(options: Any, wanted: Sequence[tuple[Arm, int]]) -> list[Row]:
    """Of all that is kept or could be trained within the budget; told as they come."""
    kept = {} if options.again or options.quick else _load()
    found = [kept[arm.text(seed)] for arm, seed in wanted if arm.text(seed) in kept]
    for row in _trained(options, [(a, s) for a, s in wanted if a.text(s) not in kept]):
        found.append(row)
        if not options.quick:
            _keep(row)
    return found


def of(found: Sequence[Row], arm: Arm) -> list[Row]:
    """An arm's rows, by seed."""
    mine = [row for row in found if row["arm"] == asdict(arm)]
    return sorted(mine, key=lambda row: row["seed"])


def whole(found: Sequence[Row], arm: Arm, options: Any) -> bool:
    """Whether an arm was trained with all seeds; a figure of fewer is none yet."""
    seeds = SEEDS[:1] if options.quick else SEEDS
    return {row["seed"] for row in of(found, arm)} >= set(seeds)


def at_the_end(row: Row, share: float = 0.1) -> float:
    """Mean accuracy over the last tenth of the judgements, at least three: with few clients a
    round, single judgements swing."""
    last = max(3, round(share * len(row["accuracy"])))
    return sum(row["accuracy"][-last:]) / len(row["accuracy"][-last:])


def _trained(options: Any, wanted: Sequence[tuple[Arm, int]]) -> Iterator[Row]:
    end = time.monotonic() + 60 * options.budget
    for arm, seed in wanted:
        if time.monotonic() > end:
            return
        began = time.monotonic()
        row = {"arm": asdict(arm), "seed": seed, **_figures(_run(options.data, arm, seed))}
        row["seconds"] = round(time.monotonic() - began, 1)
        print(_told(row), file=sys.stderr, flush=True)
        yield row


def _run(folder: Path, arm: Arm, seed: int) -> LearnRun:
    train, test = samples(folder, arm.samples, TEST_SAMPLES)
    made = algorithm(arm.algorithm)
    task = Task(
        learner=network(arm.model, train, test),
        partition=split(train, arm.clients, how(arm.partition), seed),
        algorithm=made,
        rounds=arm.rounds,
        seed=seed,
        chances=Chances(arm.per_round),
        every=arm.every,
        model=arm.model,
        test_samples=len(test),
        enough_samples=arm.steps * made.batch,
    )
    return run(task)


@lru_cache(maxsize=2)
def samples(folder: Path, count: int, tested: int) -> tuple[Samples, Samples]:
    """For training, the same whatever the seed; and for judging."""
    train, test = fashion_mnist(folder)
    return train.some(count, 0), test.some(tested, 0)


def _figures(made: LearnRun) -> Row:
    """By judgement: behind which round, how accurate, bytes that all sent and that came to the
    server until then."""
    up, total = [], 0
    for each in made.rounds:
        total += sum(t.size_bytes for t in each.trips if t.targets == (SERVER,))
        up.append(total)
    return {
        "skew": made.skew,
        "round": [each.round for each in made.judged],
        "accuracy": [round(each.accuracy, 5) for each in made.judged],
        "sent_bytes": [each.sent_bytes for each in made.judged],
        "up_bytes": [up[each.round] for each in made.judged],
        "broken": made.broken,
    }


def _told(row: Row) -> str:
    arm = row["arm"]
    return (
        f"{arm['algorithm']}, {arm['model']}, {arm['clients']} clients, {arm['partition']}, seed "
        f"{row['seed']}: {at_the_end(row):.4f} ({row['accuracy'][-1]:.4f} last), "
        f"{row['sent_bytes'][-1] / 1e6:.1f} MB, {row['seconds']:.0f} s"
    )


def _keep(row: Row) -> None:
    arm = Arm(**row["arm"])
    kept = {**_load(), arm.text(row["seed"]): row}
    KEPT.write_text(json.dumps(kept, sort_keys=True).replace("}, ", "},\n") + "\n")


def _load() -> dict[str, Row]:
    return json.loads(KEPT.read_text()) if KEPT.exists() else {}
