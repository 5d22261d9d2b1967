"""Runs of `paceline learn` in the lab, and what was predicted of them from runs without it.

Measured is a training of one client a worker on hosts with shares of a core and links of their own.
Predicted is, from trainings of other seeds in one process, in which round the target is reached and
how long a round takes on that cluster. What was measured is kept in
`results/learning-lab-rows.json`, with the load of the machine; trainings without the lab are kept
in `runs/learning` and serve all places that have as many workers.
"""

import hashlib
import json
import os
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields, replace
from functools import cache
from pathlib import Path
from statistics import mean
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[2]))

from benchmarks import kept
from benchmarks.accuracy import calibrated, cells, learning
from paceline.cluster import Cluster, Host, Link
from paceline.cluster.tcp import over_tcp
from paceline.lab import Lab
from paceline.learn import (
    Forecast,
    LearnRun,
    Task,
    algorithm,
    forecast,
    load,
    reach,
    run,
    save,
    split,
)
from paceline.learn.partition import how
from paceline.learn.record import Judged
from paceline.learn.torch_workers import network
from paceline.measure import Calibration
from paceline.predict import Question

ROWS = "learning-lab"
RUNS = Path(__file__).parents[2] / "runs" / "learning"
MEASURED_SEEDS = (7, 8, 9)
SEEDS = (1, 2, 3)
TEST_SAMPLES = 2000

Row = dict[str, Any]


@dataclass(frozen=True)
class Place:
    """Hosts of one worker each: their shares of a core, and their links."""

    cpus: tuple[float, ...]
    mbit: tuple[float, ...]

    def cluster(self) -> Cluster:
        hosts = tuple(
            Host(f"h{n}", cells.DEVICE, link=Link.both_ways(rate * 1e6 / 8), cpus=share)
            for n, (share, rate) in enumerate(zip(self.cpus, self.mbit))
        )
        return over_tcp(Cluster(hosts, Link.both_ways(max(self.mbit) * 1e6 / 8)))

    def __str__(self) -> str:
        rates = " ".join(f"{rate:g}" for rate in self.mbit)
        return f"{' '.join(f'{share:g}' for share in self.cpus)} cores, {rates} Mbit/s"


@dataclass(frozen=True)
class Training:
    """What is trained, wherever that is."""

    clients: int
    algorithm: str
    partition: str
    rounds: int
    model: str
    samples: int
    every: int


@dataclass(frozen=True)
class Setting:
    """One training on one place."""

    place: Place
    algorithm: str
    partition: str
    rounds: int
    model: str = "cnn-group-norm"
    samples: int = 20000
    every: int = 5

    @property
    def training(self) -> Training:
        told = {f.name: getattr(self, f.name) for f in fields(Training) if f.name != "clients"}
        return Training(len(self.place.cpus), **told)

    def text(self, seed: int) -> str:
        return json.dumps({**asdict(self), "seed": seed}, sort_keys=True)


@dataclass(frozen=True)
class Outcome:
    """When a target was reached, and when that was predicted. None: not."""

    setting: Setting
    target: float
    measured_s: float | None
    predicted: Forecast
    round_s: float  # measured
    load: float  # of the machine meanwhile

    @property
    def error(self) -> float | None:
        seconds = self.predicted.seconds
        if seconds is None or self.measured_s is None:
            return None
        return seconds / self.measured_s - 1

    def document(self) -> Row:
        error, there = self.error, self.predicted
        return {
            "algorithm": self.setting.algorithm,
            "partition": self.setting.partition,
            "place": str(self.setting.place),
            "target": self.target,
            "measured_s": self.measured_s,
            "predicted_s": there.seconds,
            "low_s": there.low_s,
            "high_s": there.high_s,
            "error": None if error is None else round(error, 4),
            "round_ms": round(1e3 * self.round_s, 2),
            "predicted_round_ms": round(1e3 * there.round.mean_s, 2),
            "predicted_rounds": there.reach.rounds,
            "best": round(there.reach.best, 4),
            "load": self.load,
        }


def outcome(
    options: Any, setting: Setting, target: float, seeds: Sequence[int] = MEASURED_SEEDS
) -> Outcome:
    """Measured now, unless it was before: the mean of these seeds. Predicted from the others."""
    rows = [_measured(options, setting, each) for each in seeds[: 1 if options.quick else None]]
    others = SEEDS[: 1 if options.quick else 3]
    runs = [alone(options, setting.training, other) for other in others]
    made = _calibration()
    question = Question(machine=calibrated.machine(made), calibration=made)
    there = forecast(runs, target, made.applied(setting.place.cluster()), question)
    reached = [_reached_s(row, runs[0], target) for row in rows]
    found = Outcome(
        setting,
        target,
        mean(each for each in reached if each is not None) if all(reached) else None,
        there,
        mean(row["round_s"] for row in rows),
        max(row["load"] for row in rows),
    )
    print(json.dumps(found.document()), file=sys.stderr, flush=True)
    return found


@cache
def _calibration() -> Calibration:
    """One for all rows of a run."""
    return calibrated.now()


def alone(options: Any, training: Training, seed: int) -> LearnRun:
    """In this process, unless it was before."""
    text = json.dumps({**asdict(training), "seed": seed}, sort_keys=True)
    folder = RUNS / hashlib.sha256(text.encode()).hexdigest()[:16]
    if options.quick:
        return _trained(options.data, training, seed)
    if options.again or not folder.exists():
        save([_trained(options.data, training, seed)], folder)
    (found,) = load(folder)
    return found


def _trained(folder: Path, training: Training, seed: int) -> LearnRun:
    train, test = learning.samples(folder, training.samples, TEST_SAMPLES)
    return run(
        Task(
            learner=network(training.model, train, test),
            partition=split(train, training.clients, how(training.partition), seed),
            algorithm=algorithm(training.algorithm),
            rounds=training.rounds,
            seed=seed,
            every=training.every,
            model=training.model,
            test_samples=len(test),
        )
    )


def _reached_s(row: Row, like: LearnRun, target: float) -> float | None:
    """The measured curve is read as the predicted one is: smoothed, between judgements."""
    judged = tuple(Judged(r, a, 0) for r, a in zip(row["round"], row["accuracy"]))
    found = reach([replace(like, judged=judged)], target)
    if found.rounds is None or not found.observed:
        return None
    ends = [0.0, *row["ended_s"]]
    return float(np.interp(found.rounds, np.arange(len(ends)), ends))


def _measured(options: Any, setting: Setting, seed: int) -> Row:
    key = setting.text(seed)
    row = None if options.again or options.quick else kept_rows().get(key)
    if row is None:
        row = _in_the_lab(options, setting, seed)
        print(f"{setting.algorithm}, {setting.place}: {_told(row)}", file=sys.stderr, flush=True)
        if not options.quick:
            kept.keep(ROWS, {**kept_rows(), key: row})
    return row


def _in_the_lab(options: Any, setting: Setting, seed: int) -> Row:
    with tempfile.TemporaryDirectory() as folder, Lab(setting.place.cluster()) as lab:
        out = Path(folder) / "run"
        command = [*cells.FIRST, sys.executable, "-m", "paceline", *_words(options, setting, seed)]
        lab.run([*command, "-o", str(out)], timeout_s=900, logs=Path(folder))
        (made,) = load(out)
    ends = [each.ended_s for each in made.rounds]
    return {
        "setting": asdict(setting),
        "seed": seed,
        "round": [each.round for each in made.judged],
        "accuracy": [round(each.accuracy, 5) for each in made.judged],
        "ended_s": [round(each, 4) for each in ends],
        "round_s": round((ends[-1] - ends[1]) / (len(ends) - 2), 6),
        "load": round(os.getloadavg()[0], 2),
    }


def _words(options: Any, setting: Setting, seed: int) -> list[str]:
    given = {
        "--data": options.data,
        "--algorithm": setting.algorithm,
        "--partition": setting.partition,
        "--clients": setting.training.clients,
        "--rounds": setting.rounds,
        "--every": setting.every,
        "--model": setting.model,
        "--samples": setting.samples,
        "--test-samples": TEST_SAMPLES,
        "--seed": seed,
    }
    return ["learn", "run", "--sums", *(str(word) for pair in given.items() for word in pair)]


def _told(row: Row) -> str:
    best = max(row["accuracy"])
    return f"{1e3 * row['round_s']:.1f} ms a round, {best:.4f} at best, load {row['load']}"


def kept_rows() -> dict[str, Row]:
    """Of this machine, by setting and seed."""
    return kept.load(ROWS)
