"""What PyTorch's users do by hand, beside the plain job, in the lab; and a plan against the best.

A sweep of bucket_cap_mb, ZeroRedundancyOptimizer, and where losses are allowed the fp16 and
PowerSGD hooks. All take turns in one run (`jobs/by_hand`); a choice's gain is over the plain job in
the same round. The best choice is named by one half of the rounds and measured by the other, so
that chance does not choose it. `hand_noise` is by how much the plain job differs from its own
second copy: 25 MB are what DDP takes by itself.
"""

import json
import os
import statistics
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.accuracy.cells import cluster
from paceline.lab import Lab
from paceline.strategies import Effect

JOB = Path(__file__).parent / "jobs" / "by_hand.py"
PLAIN, AGAIN = "plain", "bucket_cap_mb=25"
EXACT = {
    **{f"bucket_cap_mb={mb}": ("--bucket-mb", str(mb)) for mb in (1, 5, 10, 25, 50)},
    "ZeroRedundancyOptimizer": ("--parallel", "zero"),
}
LOSSY = {"fp16 hook": ("--hook", "fp16"), "PowerSGD hook": ("--hook", "powersgd")}
ALLOWED = {Effect.EXACT: (*EXACT,), Effect.LOSSY: (*EXACT, *LOSSY)}

Round = Mapping[str, float]
"""The median step of the plain job and of each choice, in ms."""


def rounds_of(model: str, mbit: int, workers: int, rounds: int, steps: int) -> list[Round]:
    """So many rounds, with so many steps of each choice in each."""
    choices = {PLAIN: (), **EXACT, **LOSSY}
    with (
        tempfile.TemporaryDirectory(prefix="paceline-hand-") as folder,
        Lab(cluster(workers, mbit)) as lab,
    ):
        out = Path(folder) / "rounds.json"
        job = [sys.executable, str(JOB), "--model", model, "--choices", json.dumps(choices)]
        job += ["--rounds", str(rounds), "--steps", str(steps), "--out", str(out)]
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        lab.run(job, timeout_s=1500, environment=environment, logs=Path(folder))
        found: list[Round] = json.loads(out.read_text())
    return found


def versus(plan: float, effect: Effect, rounds: Sequence[Round]) -> dict[str, Any]:
    """A plan that makes the job so many times as fast, over the best choice that it may be set
    against. Every second round names the best, the others measure it."""
    named = {name: gain(rounds[::2], name) for name in (PLAIN, *ALLOWED[effect])}
    best = max(named, key=lambda name: named[name])
    return {
        "best_hand": best,
        "hand_gains": {name: round(gain(rounds, name), 4) for name in named},
        "hand_noise": noise(rounds),
        "vs_hand": round(plan / gain(rounds[1::2], best), 4),
    }


def gain(rounds: Sequence[Round], name: str) -> float:
    """How many times as fast as the plain job in its round, which itself is 1."""
    return statistics.median(each[PLAIN] / each[name] for each in rounds)


def noise(rounds: Sequence[Round]) -> float:
    """What a plan differs by less from the best choice is chance."""
    return round(statistics.median(abs(each[AGAIN] / each[PLAIN] - 1) for each in rounds), 4)
