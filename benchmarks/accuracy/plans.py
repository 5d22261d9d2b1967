"""All plans of a small transformer on four workers: the order that was predicted, and the measured.

One worker trains the model by the code that `paceline plan --export torch` writes, under the
recorder, alone in the lab. Its blocks and their times become the planner's model. Every plan of
four workers (data, tensor and pipeline ranks and their products, each as DDP and as FSDP2 where
there are data ranks) is priced at 200 Mbit/s and at 1 Gbit/s on the cores of this machine, which
all share; then its exported code is run there. `rank_correlation` is Spearman's of predicted and
measured steps, the lower one of both rates; `order_right` the share of pairs of plans whose steps
differ by more than 3 % that come in the predicted order; `mean_error` and `worst_error` are of the
steps.

    python benchmarks/accuracy/plans.py --json
"""

import json
import os
import statistics
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[2]))

from benchmarks import measure
from benchmarks.accuracy import cells, pipeline_lab
from paceline.cluster import Cluster
from paceline.cluster.machine import Machine
from paceline.cost.decoder import Site, site_of
from paceline.imagine.decoder import TORCH, DecoderJob, Precision, Recipe, Sharding, from_document
from paceline.imagine.transformer import Degrees
from paceline.lab import Lab
from paceline.place.hybrid import Question, price, spelled
from paceline.place.hybrid.exports import torch_code
from paceline.place.hybrid.recorded import RecordedAs, RecordedJob, recorded_job
from paceline.trace.runs import open_run
from paceline.verify import Proof, prove

WORKERS, BATCH, MICRO_BATCH = 4, 16, 4
RATES_MBIT = (200, 1000)
MODEL = from_document({
    "name": "small", "layers": 4, "hidden": 256, "vocab": 1024, "sequence": 64,
    "attention": {"kind": "grouped", "heads": 4}, "feed_forward": {"kind": "gated", "width": 768},
})  # fmt: skip
DEVICE = "epyc-2c"
SETTINGS = {"OMP_NUM_THREADS": "1"}
RECORDED_STEPS = 24
ALIKE = 0.03


def main(arguments: list[str] | None = None) -> dict[str, Any]:
    parser = measure.parser(__doc__ or "")
    parser.add_argument("--rates", type=int, nargs="+", default=RATES_MBIT, metavar="MBIT")
    options = parser.parse_args(arguments)
    if refused := pipeline_lab.why_not():
        raise SystemExit(f"no lab stands up here: {refused}")
    recorded, machine = record(), Machine(float(os.cpu_count() or 1))
    steps = 4 if options.quick else 12
    rows = [
        row(recorded, job, site_at(mbit, machine), mbit, steps)
        for mbit in options.rates
        for job in jobs()
    ]
    return measure.report("accuracy/plans", figures(rows), options, "torch")


def figures(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    errors = [abs(one["error"]) for one in rows]
    rates = sorted({one["mbit"] for one in rows})
    by_rate = [[one for one in rows if one["mbit"] == mbit] for mbit in rates]
    return {
        "rank_correlation": min(correlation(each) for each in by_rate),
        "order_right": min(ordered(each) for each in by_rate),
        "mean_error": statistics.mean(errors),
        "worst_error": max(errors),
        "rows": list(rows),
    }


def correlation(rows: Sequence[dict[str, Any]]) -> float:
    """Spearman's, of steps that are all different."""
    told, took = (
        np.argsort(np.argsort([one[name] for one in rows])) for name in ("predicted_s", "median_s")
    )
    return float(np.corrcoef(told, took)[0, 1])


def ordered(rows: Sequence[dict[str, Any]]) -> float:
    """Pairs that differ, in the predicted order."""
    apart = [
        (a, b) for a, b in combinations(rows, 2) if abs(a["median_s"] / b["median_s"] - 1) > ALIKE
    ]
    right = [
        (a["median_s"] < b["median_s"]) == (a["predicted_s"] < b["predicted_s"]) for a, b in apart
    ]
    return statistics.mean(right) if right else 1.0


def jobs() -> Iterator[DecoderJob]:
    """All plans of four workers that the exported code can run."""
    for data, tensor, pipeline in (
        (4, 1, 1),
        (2, 2, 1),
        (2, 1, 2),
        (1, 4, 1),
        (1, 2, 2),
        (1, 1, 4),
    ):
        shardings = (
            (Sharding.NONE, Sharding.OPTIMIZER, Sharding.FULL) if data > 1 else (Sharding.NONE,)
        )
        for sharding in shardings:
            if sharding is Sharding.FULL and pipeline > 1:
                continue  # a pipeline keeps gathered weights: it is the same as the one before
            yield job(Degrees(data, tensor, pipeline), sharding)


def job(degrees: Degrees, sharding: Sharding) -> DecoderJob:
    recipe = Recipe(BATCH, MICRO_BATCH, precision=Precision.FP32, sharding=sharding, habits=TORCH)
    return DecoderJob(MODEL, degrees, recipe)


def site_at(mbit: int, machine: Machine | None) -> Site:
    return site_of(cluster(WORKERS, mbit), machine=machine)


def cluster(workers: int, mbit: int) -> Cluster:
    """Hosts around a switch, whose processor has rates: only ratios of them are used."""
    from paceline.cluster.files import device

    plain = cells.cluster(workers, mbit)
    return replace(plain, hosts=tuple(replace(h, device=device(DEVICE)) for h in plain.hosts))


def record() -> RecordedJob:
    """One worker's steps of one micro-batch, by the exported code."""
    alone = job(Degrees(), Sharding.NONE)
    alone = replace(alone, recipe=replace(alone.recipe, global_batch=MICRO_BATCH))
    with tempfile.TemporaryDirectory() as folder:
        run, script = Path(folder) / "run", exported(alone, Path(folder))
        command = (*cells.FIRST, sys.executable, str(script), "--steps", str(RECORDED_STEPS))
        prove(Proof(command, cells.cluster(1, RATES_MBIT[-1])), {**os.environ, **SETTINGS}, run)
        return recorded_job(open_run(run), RecordedAs("small"))


def exported(job: DecoderJob, folder: Path) -> Path:
    for name, text in torch_code(job).items():
        (folder / name).write_text(text)
    return folder / "torch_plan.py"


def row(
    recorded: RecordedJob, job: DecoderJob, site: Site, mbit: int, steps: int
) -> dict[str, Any]:
    """A plan as priced, and as its code ran."""
    asked: Question = recorded.question(site, global_batch=BATCH)
    told = DecoderJob(recorded.model, job.degrees, job.recipe)
    expected = price(told, asked.prices())
    took = measure.spread(measured(job, mbit, steps))
    return {
        "plan": spelled(job),
        "mbit": mbit,
        "predicted_s": expected.step_ns / 1e9,
        "median_s": took["median"],
        "error": expected.step_ns / 1e9 / took["median"] - 1,
        "parts_s": {name: ns / 1e9 for name, ns in expected.parts.items()},
        "step_s": took,
    }


def measured(job: DecoderJob, mbit: int, steps: int) -> list[float]:
    """Seconds of a plan's steps in the lab, the first ones left out."""
    with tempfile.TemporaryDirectory() as folder, Lab(cells.cluster(WORKERS, mbit)) as lab:
        script = exported(job, Path(folder))
        command = [*cells.FIRST, sys.executable, str(script), "--steps", str(steps + 2)]
        done = lab.run(command, timeout_s=300, environment=SETTINGS, logs=Path(folder))
        said = [done.text(worker) for worker in range(WORKERS)]
    lines = [line for text in said for line in text.splitlines() if line.startswith("seconds")]
    if not lines:
        raise SystemExit(f"{spelled(job)} said nothing of its steps: {json.dumps(said)[-2000:]}")
    return [float(second) for second in lines[0].split()[1:]][2:]


if __name__ == "__main__":
    main()
