"""What `plans.py` measures: sizes, a worker's recording of each, and the plans that ran in the lab.

All of it is kept as it comes in `benchmarks/results/plans-rows.json`, by the machine that it is of:
what a recording told, what this machine's cores cost, and the steps of each plan.
"""

import json
import os
import random
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

from benchmarks import kept
from benchmarks.accuracy import cells
from benchmarks.accuracy.recordings import measured_machine
from paceline.cluster import Cluster
from paceline.cluster.files import device
from paceline.cluster.machine import Machine
from paceline.cost.passes import PassTimes
from paceline.imagine.decoder import (
    TORCH,
    Decoder,
    DecoderJob,
    Precision,
    Recipe,
    Sharding,
    from_document,
)
from paceline.imagine.transformer import Degrees
from paceline.lab import Lab
from paceline.place.hybrid import spelled
from paceline.place.hybrid.exports import torch_code
from paceline.place.hybrid.recorded import (
    Described,
    RecordedAs,
    RecordedModel,
    Spent,
    recorded_model,
)
from paceline.trace.runs import open_run
from paceline.verify import Proof, prove

NAME = "plans"
PRICES = "prices"
WORKERS, SEED = 4, 18
DEVICE = "epyc-2c"
"""A processor that has rates: only ratios of them are used."""
SETTINGS = {"OMP_NUM_THREADS": "1"}
RECORDED_STEPS = 24
Row = dict[str, Any]


@dataclass(frozen=True)
class Size:
    """A model, how it is trained, and over which links."""

    model: Decoder
    batch: int
    micro_batch: int
    rates_mbit: tuple[int, ...]

    @property
    def name(self) -> str:
        return self.model.name

    def job(self, degrees: Degrees, sharding: Sharding) -> DecoderJob:
        recipe = Recipe(
            self.batch, self.micro_batch, precision=Precision.FP32, sharding=sharding, habits=TORCH
        )
        return DecoderJob(self.model, degrees, recipe)

    @property
    def alone(self) -> DecoderJob:
        """A micro-batch on one worker."""
        job = self.job(Degrees(), Sharding.NONE)
        return replace(job, recipe=replace(job.recipe, global_batch=self.micro_batch))


SMALL = Size(from_document({
    "name": "small", "layers": 4, "hidden": 256, "vocab": 1024, "sequence": 64,
    "attention": {"kind": "grouped", "heads": 4}, "feed_forward": {"kind": "gated", "width": 768},
}), 16, 4, (200, 1000))  # fmt: skip
HELD_BACK = Size(from_document({
    "name": "held back", "layers": 4, "hidden": 384, "vocab": 2048, "sequence": 96,
    "attention": {"kind": "grouped", "heads": 4}, "feed_forward": {"kind": "gated", "width": 1024},
}), 16, 2, (500,))  # fmt: skip
SINCE = Size(from_document({
    "name": "since", "layers": 8, "hidden": 192, "vocab": 1536, "sequence": 80,
    "attention": {"kind": "grouped", "heads": 4}, "feed_forward": {"kind": "gated", "width": 640},
}), 16, 4, (300,))  # fmt: skip


@dataclass(frozen=True)
class Planned:
    """A plan at a rate, by its name."""

    size: Size
    job: DecoderJob
    mbit: int

    @cached_property
    def name(self) -> str:
        return f"{self.size.name}: {spelled(self.job)} at {self.mbit} Mbit/s"

    def made(self, steps: int) -> Row:
        load = round(os.getloadavg()[0], 2)
        return {"steps_s": measured(self.job, self.mbit, steps), "load": load}


def planned(sizes: tuple[Size, ...] = (SMALL, HELD_BACK)) -> list[Planned]:
    """All rows, in a fixed random order."""
    rows = [
        Planned(size, job, mbit) for size in sizes for mbit in size.rates_mbit for job in jobs(size)
    ]
    random.Random(SEED).shuffle(rows)
    return rows


def jobs(size: Size) -> Iterator[DecoderJob]:
    """All plans of four workers that the exported code can run."""
    for degrees in ((4, 1, 1), (2, 2, 1), (2, 1, 2), (1, 4, 1), (1, 2, 2), (1, 1, 4)):
        data, _, pipeline = degrees
        shardings = (
            (Sharding.NONE, Sharding.OPTIMIZER, Sharding.FULL) if data > 1 else (Sharding.NONE,)
        )
        for sharding in shardings:
            if sharding is Sharding.FULL and pipeline > 1:
                continue  # a pipeline keeps gathered weights: it is the same as the one before
            yield size.job(Degrees(*degrees), sharding)


def measured(job: DecoderJob, mbit: int, steps: int) -> list[float]:
    """Seconds of a plan's steps in the lab, the first ones left out."""
    with tempfile.TemporaryDirectory() as folder, Lab(cells.cluster(WORKERS, mbit)) as lab:
        script = exported(job, Path(folder))
        command = [*cells.FIRST, sys.executable, str(script), "--steps", str(steps + 2)]
        done = lab.run(command, timeout_s=300, environment=SETTINGS, logs=Path(folder))
        told = [done.text(worker) for worker in range(WORKERS)]
    lines = [line for text in told for line in text.splitlines() if line.startswith("seconds")]
    if not lines:
        raise SystemExit(f"{spelled(job)} said nothing of its steps: {json.dumps(told)[-2000:]}")
    return [float(second) for second in lines[0].split()[1:]][2:]


def exported(job: DecoderJob, folder: Path) -> Path:
    for name, text in torch_code(job).items():
        (folder / name).write_text(text)
    return folder / "torch_plan.py"


def cluster(workers: int, mbit: int) -> Cluster:
    """Hosts around a switch, whose processor has rates."""
    plain = cells.cluster(workers, mbit)
    return replace(plain, hosts=tuple(replace(h, device=device(DEVICE)) for h in plain.hosts))


def record(size: Size) -> dict[str, Any]:
    """What one worker's steps of one micro-batch tell, by the exported code."""
    with tempfile.TemporaryDirectory() as folder:
        run, script = Path(folder) / "run", exported(size.alone, Path(folder))
        command = (*cells.FIRST, sys.executable, str(script), "--steps", str(RECORDED_STEPS))
        one = cells.cluster(1, max(size.rates_mbit))
        prove(Proof(command, one), {**os.environ, **SETTINGS}, run)
        found = recorded_model(open_run(run), RecordedAs(size.name))
    assert found.spent is not None
    return {
        **asdict(found.spent),
        "kept": found.habits.kept,
        "fused_attention": found.habits.fused_attention,
        "load": round(os.getloadavg()[0], 2),
    }


def recorded(size: Size, told: dict[str, Any]) -> RecordedModel:
    """The recording that told it."""
    passes = {name: PassTimes(**told[name]) for name in ("layer", "first", "last")}
    found = Described(
        size.model, size.micro_batch, 1, Precision.FP32, fused_attention=told["fused_attention"]
    )
    habits = replace(TORCH, fused_attention=found.fused_attention, kept=told["kept"])
    return RecordedModel(found, Spent(**passes, update_ns=told["update_ns"], device=None), habits)


class Keep:
    """What is kept of this machine, written whenever something is added."""

    def __init__(self, name: str | None = NAME) -> None:
        """Without a name nothing is written."""
        self.name = name
        self.rows: dict[str, Row] = kept.load(name) if name else {}

    def machine(self) -> Machine:
        return Machine(**self._once(PRICES, lambda: asdict(measured_machine())))

    def recorded(self, size: Size) -> RecordedModel:
        return recorded(size, self._once(f"recorded {size.name}", lambda: record(size)))

    def row(self, one: Planned, steps: int) -> Row:
        return self._once(one.name, lambda: one.made(steps))

    def _once(self, name: str, make: Callable[[], Row]) -> Row:
        if name not in self.rows:
            self.rows[name] = make()
            if self.name:
                kept.keep(self.name, self.rows)
        return self.rows[name]
