"""The rows of `noise.py`: what is recorded beside the neighbour, and what that is set against.

Each row's `cells` hold an error and its floor: what chance alone lets the truth be off by that it
is set against. Where the truth was measured beside our own neighbour the floor is none: its noise
is what is tried.
"""

import os
import random
import statistics
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from itertools import combinations
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

from benchmarks.accuracy import elsewhere, self_replay
from benchmarks.accuracy.pipeline import CASES, LOOPBACK, Case, Effort, case_rows
from benchmarks.accuracy.recordings import measured_machine
from benchmarks.accuracy.settings import Setting, floor, plain_run, record
from benchmarks.measure import spread
from benchmarks.noise_maker import Kind, Noise, beside
from paceline.cluster.machine import Machine
from paceline.compare import Verdict, diff, side_of

SEED = 23
MODELS = ("mlp", "transformer", "resnet20")
GOALS = ((2, 200), (2, 500), (4, 1000), (4, 200))
SELF = tuple(job for job in self_replay.JOBS if job.workers == 2)[:5]
SELF_STEPS, SELF_TIMES = 15, 3  # recorded in each, and recordings beside each kind of noise
UNCHANGED = tuple(self_replay.JOBS[i] for i in (1, 2, 4))
UNCHANGED_TIMES, PAIRS = 13, 200  # recordings of each job, and pairs of them in all
UNCHANGED_STEPS = 12
PIPELINE = Effort(rounds=3, batches=24, networks=(LOOPBACK,), machine=None)

Row = dict[str, Any]


@dataclass(frozen=True)
class Planned:
    """A row by its name, and how it is made with this machine's prices."""

    name: str
    make: Callable[[Machine], Row]


def planned() -> list[Planned]:
    """All rows, in a fixed random order."""
    rows = [
        *(Planned(f"self {job.name}", partial(replayed, job)) for job in SELF),
        *(Planned(f"retarget {model}", partial(carried, model)) for model in MODELS),
        *(Planned(f"pipeline {case.name}", partial(piped, case)) for case in CASES),
        *(Planned(f"crowded {model}", partial(crowded, model)) for model in MODELS),
        *(Planned(f"unchanged {job.name}", partial(unchanged, job)) for job in UNCHANGED),
    ]
    random.Random(SEED).shuffle(rows)
    return rows


def pricing_machine() -> dict[str, Any]:
    """What this machine's cores and TCP cost, measured once for all rows."""
    return asdict(measured_machine())


def noises() -> list[Noise]:
    """One neighbour of each kind."""
    return [Noise(kind, SEED + number) for number, kind in enumerate(Kind)]


def replayed(job: self_replay.Job, _: Machine) -> Row:
    """Recorded beside each kind of noise, in turn with plain steps; the median of its recordings is
    its error."""
    cells = []
    for noise in noises():
        with tempfile.TemporaryDirectory() as folder, beside(noise):
            take = partial(self_replay.recording, job, Path(folder), SELF_STEPS, turns=True)
            made = [self_replay.in_the_end(take) for _ in range(SELF_TIMES)]
        errors = [one.error for one in made]
        cells.append({
            "kind": "self",
            "noise": noise.kind.value,
            "error": round(statistics.median(errors), 4),
            "errors": [round(error, 4) for error in errors],
            "floor": 0.0,
        })  # fmt: skip
    return {"cells": cells}


def carried(model: str, machine: Machine) -> Row:
    """Recorded alone and beside each kind of noise; the latter predict what ran without it."""
    start = Setting(model, "ddp", 2, 1000)
    alone, _ = record(start)
    noisy = []
    for noise in noises():
        with beside(noise):
            noisy.append((noise, *record(start)))
    cells = []
    for workers, mbit in GOALS:
        there = Setting(model, "ddp", workers, mbit)
        steps = plain_run(there, there.size.plain)
        load = round(os.getloadavg()[0], 2)
        truth = {"step_s": spread(steps), "floor": floor([steps]), "load": load}
        for noise, graph, facts in noisy:
            quiet = facts | {"floor": 0.0}  # its own steps varied for our noise
            row = elsewhere.row((start, graph, quiet), (there, graph, truth), machine)
            cells.append({"kind": "retarget", "noise": noise.kind.value, **row})
    before = alone.facts.plain_run_ns
    ran = [graph.facts.plain_run_ns for _, graph, _ in noisy]
    return {
        "cells": cells,
        "work_errors": [round(ns / before - 1, 4) for ns in ran if ns and before],
    }


def piped(case: Case, _: Machine) -> Row:
    """Profiled and run beside the neighbour that does both."""
    with beside(noises()[-1]):
        rows = case_rows(case, PIPELINE)
    return {
        "cells": [
            {
                "kind": "pipeline",
                "schedule": row["schedule"],
                "error": round(statistics.median(row["ratios"]) - 1, 4),
                "ratios": [round(ratio, 4) for ratio in row["ratios"]],
                "floor": 0.0,
            }
            for row in rows
        ]
    }


def crowded(model: str, machine: Machine) -> Row:
    """Four workers on two cores carried to two workers, and back; nobody else is there."""
    made = [
        (setting, *record(setting))
        for setting in (Setting(model, "ddp", 4, 1000), Setting(model, "ddp", 2, 1000))
    ]
    pairs = ((made[0], made[1]), (made[1], made[0]))
    return {
        "cells": [{"kind": "crowded", **elsewhere.row(*pair, machine)} for pair in pairs],
    }


def unchanged(job: self_replay.Job, _: Machine) -> Row:
    """Recordings of one job, each beside the next kind of noise: which pairs `diff` tells apart."""
    with tempfile.TemporaryDirectory() as folder:
        places = [Path(folder) / str(number) for number in range(UNCHANGED_TIMES)]
        for number, place in enumerate(places):
            kinds = noises()
            with beside(kinds[number % len(kinds)]):
                self_replay.in_the_end(partial(self_replay.record, job, place, UNCHANGED_STEPS))
        sides = [side_of(place) for place in places]
        drawn = pairs_of(len(sides), PAIRS // len(UNCHANGED) + 1)
        found = [diff(sides[a], sides[b]) for a, b in drawn]
    return {
        "alarms": [one.verdict is not Verdict.SAME for one in found],
        "undecided": [one.verdict is Verdict.DISTURBED for one in found],
        "changes": [round(one.change, 4) for one in found],
        "noises": [round(one.noise, 4) for one in found],
    }


def pairs_of(count: int, wanted: int) -> Sequence[tuple[int, int]]:
    """So many different pairs, drawn with a fixed seed."""
    every = list(combinations(range(count), 2))
    return random.Random(SEED).sample(every, min(wanted, len(every)))
