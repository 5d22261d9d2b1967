"""Known slow-downs of small DDP jobs, and jobs with and without them recorded in the lab.

A slow-down is a row of the table below: a model, what is put in, and what `diff` should name first.
Each job is recorded as it is before every slow-down, so that neighbouring recordings of the same
job are the unchanged pairs. Recordings are kept in a folder, one each, and never made twice.
"""

import json
import os
import shutil
import statistics
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

from benchmarks.accuracy.cells import FIRST, cluster
from paceline.compare import CauseKind
from paceline.compare.trued import plain_runs_ns
from paceline.record import sidecar
from paceline.record.launch import RecordRequest, launch
from paceline.trace.runs import open_run
from paceline.verify import Proof, recorded_in_lab

JOB = Path(__file__).parent / "jobs" / "slowed.py"
WORKERS = 2
MBIT = 1000
STEPS = 6  # recorded
PLAIN = 8  # without instruments before them, and as many after them
WARM = 13  # that the recorder lets pass before it looks, and some at the end
PUT = "put"  # files of what the job says was put in


@dataclass(frozen=True)
class Slowdown:
    """Something put into a model's job."""

    model: str
    kind: str
    named: CauseKind | None = None  # what should be named first; None of the plain job
    options: tuple[str, ...] = ()  # of the job
    mbit: int = MBIT
    rank: int = -1  # on which it is; -1: all
    layer: str = ""

    @property
    def key(self) -> str:
        return f"{self.model}-{self.kind}"


def _layer(model: str, path: str, rank: int) -> Slowdown:
    options = ("--layer", path, "--layer-ms", "30", "--rank", str(rank))
    return Slowdown(model, "layer", CauseKind.LAYER_ON_RANK, options, rank=rank, layer=path)


def _link(model: str) -> Slowdown:
    return Slowdown(model, "link", CauseKind.LINK, mbit=MBIT // 4)


def _input(model: str) -> Slowdown:
    return Slowdown(model, "input", CauseKind.INPUT, ("--input-ms", "40"))


def _batch(model: str) -> Slowdown:
    return Slowdown(model, "batch", CauseKind.BATCH, ("--batch", "3"))


def _buckets(model: str) -> Slowdown:
    return Slowdown(model, "buckets", CauseKind.BUCKETS, ("--bucket-mb", "0.001"))


def _busy(model: str) -> Slowdown:
    return Slowdown(model, "busy", CauseKind.CORE, ("--busy", "3"))


def _replaced(model: str, *options: str) -> Slowdown:
    what = CauseKind.OPTIMIZER if "--optimizer" in options else CauseKind.REPLACED
    return Slowdown(model, "replaced", what, options)


SLOWDOWNS = (
    *(_layer("mlp", "4", 1), _link("mlp"), _input("mlp"), _batch("mlp"), _busy("mlp")),
    *(_layer("transformer", "layers.layers.2", 0), _link("transformer"), _input("transformer")),
    *(_batch("transformer"), _buckets("transformer")),
    *(_layer("resnet20", "5", 1), _input("resnet20"), _batch("resnet20"), _buckets("resnet20")),
    *(_layer("lstm", "out", 0), _link("lstm"), _input("lstm"), _busy("lstm")),
    *(_layer("wide", "3", 1), _link("wide")),
    _replaced("transformer", "--optimizer", "adamw"),
    _replaced("mlp", "--replace", "linear"),
    _replaced("resnet20", "--replace", "norm"),
    _replaced("wide", "--optimizer", "adamw"),
)
"""`diff` was written on those of mlp and transformer, and mended after the others were seen."""

HELD_BACK = (
    *(_link("resnet20"), _busy("resnet20"), _replaced("lstm", "--optimizer", "adamw")),
    *(_batch("lstm"), _input("wide"), _batch("wide"), _buckets("lstm"), _busy("transformer")),
)
"""Recorded when `diff` was done. One thing was changed after a first recording of these: by how
much more than threads messages may wait for cores (`compare.rules`)."""


def unchanged(most: int = 12) -> list[tuple[str, str]]:
    """Neighbouring recordings of the same job, each in one pair."""
    found = []
    for model in dict.fromkeys(row.model for row in SLOWDOWNS):
        count = 1 + sum(row.model == model for row in SLOWDOWNS)
        names = [f"{model}-plain{number}" for number in range(count)]
        found += list(zip(names[::2], names[1::2]))
    return found[:most]


def recordings(models: tuple[str, ...] = ()) -> Iterator[tuple[str, Slowdown]]:
    """Names of all recordings in the order in which they are made: each slow-down between two
    recordings of the plain job."""
    for rows, plain in ((SLOWDOWNS, "plain"), (HELD_BACK, "again")):
        for model in dict.fromkeys(row.model for row in rows):
            if models and model not in models:
                continue
            mine = [row for row in rows if row.model == model]
            for number, row in enumerate(mine):
                yield f"{model}-{plain}{number}", Slowdown(model, "plain")
                yield row.key, row
            yield f"{model}-{plain}{len(mine)}", Slowdown(model, "plain")


def record(row: Slowdown, place: Path) -> None:
    """One recording in the lab; what did not end well leaves nothing."""
    with tempfile.TemporaryDirectory() as scratch:
        made = Path(scratch) / "run"
        steps = str(2 * PLAIN + STEPS + WARM)
        command = (
            *(*FIRST, sys.executable, str(JOB), "--model", row.model, "--steps", steps),
            *("--put", str(Path(scratch) / PUT), *row.options),
        )
        proof = Proof(command, cluster(WORKERS, row.mbit), STEPS, 200.0)
        request = RecordRequest(command, made, STEPS, PLAIN)
        launch(request, os.environ, recorded_in_lab(proof, Path(scratch) / "logs"))
        open_run(made)
        for file in Path(scratch).glob(f"{PUT}-*.json"):
            shutil.copy(file, made)
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.move(made, place)


def put_in_ns(row: Slowdown, before: Path, after: Path, change_ns: float) -> float:
    """What was put into a step: timed by the job itself; what the kernel counted that the training
    threads ran longer, where the job's own work changed; else by how much the steps changed."""
    if row.kind in ("layer", "input"):
        return _timed_ns(after)
    if row.kind in ("batch", "replaced"):
        return _ran_ns(after) - _ran_ns(before)
    return change_ns


def _timed_ns(folder: Path) -> float:
    """On the rank that got most of it."""
    files: list[dict[str, Any]] = [json.loads(f.read_text()) for f in folder.glob(f"{PUT}-*.json")]
    return max(1e9 * statistics.median(f["put_s"][WARM:]) for f in files)


def _ran_ns(folder: Path) -> float:
    """What a training thread ran in a step without instruments, the mean of the ranks."""
    files = [sidecar.read(file) for file in folder.glob("rank-*.facts.jsonl")]
    return statistics.mean(plain_runs_ns(files).values())
