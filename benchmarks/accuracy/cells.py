"""Ground truth: un-instrumented DDP jobs in the lab, one cell a setting, kept in a file.

A cell is (model, workers, link rate, bucket size). Measured cells are kept with date, load and
steps in `benchmarks/results/retarget-cells.json`, so that predicting again needs no measuring.

A shared machine drifts by several per cent within minutes. Cells whose step is short are therefore
run `PASSES` times, each time after all others; the steps of all runs count alike. Where the link
takes most of a step, one run is enough.

    python -m benchmarks.accuracy.cells --seconds 100      # measure what is missing, for so long
"""

import argparse
import json
import math
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

from benchmarks.measure import RESULTS, spread
from paceline.cluster import Cluster, Device, Host, Link
from paceline.cluster.tcp import over_tcp
from paceline.lab import Lab, WorkerError

KEPT = RESULTS / "retarget-cells.json"
JOB = Path(__file__).parent / "jobs" / "train.py"

MODELS = ("mlp", "resnet20", "transformer")
RATES_MBIT = (50, 100, 200, 500, 1000)
WORKERS = (2, 4)
BUCKETS_MB = (1, 25)

GRADIENT_BYTES = {"mlp": 25_190_400, "resnet20": 1_089_896, "transformer": 14_688_160}
# Other programs on the machine must wait for the workers, not the workers for them.
FIRST = ("sh", "-c", 'echo -20 > /proc/self/autogroup; exec nice -n -20 "$@"', "sh")

DATE = "%Y-%m-%d %H:%M UTC"
DEVICE = Device("one core of this machine")

PASSES = 3
SHORT_S = 1.5  # shorter steps are run in all passes
RUN_S = 4.0  # of steps in a run, about
FOREIGN_LIMIT = 0.15  # a step is disturbed where others took more than this share of the machine


@dataclass(frozen=True)
class Cell:
    """One setting of the job."""

    model: str
    workers: int
    mbit: int
    bucket_mb: int

    @property
    def key(self) -> str:
        return f"{self.model} x{self.workers} {self.mbit} Mbit/s {self.bucket_mb} MB"

    @property
    def guess_s(self) -> float:
        """About how long a step takes: only to decide how many to run."""
        volume = 2 * (self.workers - 1) / self.workers * GRADIENT_BYTES[self.model]
        return 0.1 + volume * 8 / self.mbit / 1e6

    @property
    def steps(self) -> int:
        return max(4, min(30, round(RUN_S / self.guess_s)))

    @property
    def passes(self) -> int:
        return PASSES if self.guess_s < SHORT_S else 1


def all_cells() -> list[Cell]:
    return [
        Cell(model, workers, mbit, bucket)
        for workers in WORKERS
        for mbit in reversed(RATES_MBIT)
        for bucket in BUCKETS_MB
        for model in MODELS
    ]


def missing(chosen: Sequence[Cell], since: str = "") -> Iterator[Cell]:
    """Cells that want another run, pass by pass; runs from before a date do not count."""
    for number in range(1, PASSES + 1):
        for cell in chosen:
            if number <= cell.passes and len(runs(cell, since)) < number:
                yield cell


def runs(cell: Cell, since: str = "") -> list[dict[str, Any]]:
    """What is kept of a cell's runs."""
    kept: list[dict[str, Any]] = load().get(cell.key, [])
    return [run for run in kept if run["measured"] >= since]


def measure(cell: Cell) -> dict[str, Any]:
    """Run one cell in the lab; once more where a worker was aborted in gloo's own shutdown."""
    try:
        return measure_once(cell)
    except WorkerError as error:
        print(f"{cell.key}: again, after: {str(error).splitlines()[0]}", file=sys.stderr)
        return measure_once(cell)


def measure_once(cell: Cell) -> dict[str, Any]:
    with (
        tempfile.TemporaryDirectory() as folder,
        Lab(cluster(cell.workers, cell.mbit)) as lab,
    ):
        out = Path(folder) / "steps.json"
        lab.run(job_command(cell, out), timeout_s=180, logs=Path(folder))
        return summary(cell, json.loads(out.read_text()))


def job_command(cell: Cell, out: Path, steps: int = 0) -> list[str]:
    """So many steps; as many as the cell takes where not said."""
    return [
        *(*FIRST, sys.executable, str(JOB)),
        *("--model", cell.model),
        *("--bucket-mb", str(cell.bucket_mb)),
        *("--steps", str(steps or cell.steps)),
        *("--warmup", "3" if cell.guess_s < 1 else "2"),
        *("--out", str(out)),
    ]


def summary(cell: Cell, figures: dict[str, Any]) -> dict[str, Any]:
    """One run: its steps, and in how many others had much of the machine."""
    rows = list(zip(figures["step_s"], figures["workers_cpu_s"], figures["machine_cpu_s"]))
    cores = os.cpu_count() or 1
    clean = [s for s, own, all_ in rows if (all_ - own) / (s * cores) < FOREIGN_LIMIT]
    return {
        "steps_ms": [round(1e3 * step, 2) for step in figures["step_s"]],
        "workers_cpu_s": statistics.median(row[1] for row in rows),
        "machine_cpu_s": statistics.median(row[2] for row in rows),
        "steps_disturbed": len(rows) - len(clean),
        "load": round(figures["load"], 2),
        "measured": datetime.now(timezone.utc).strftime(DATE),
    }


def step_ms(kept: Sequence[dict[str, Any]]) -> dict[str, float]:
    """Median and spread over the steps of all runs."""
    return spread([step for run in kept for step in run["steps_ms"]])


def cluster(workers: int, mbit: int) -> Cluster:
    """So many hosts of one worker each around a switch, the same rate both ways."""
    hosts = tuple(Host(f"h{i}", DEVICE) for i in range(workers))
    return over_tcp(Cluster(hosts, Link.both_ways(mbit * 1e6 / 8)))


def load() -> dict[str, list[dict[str, Any]]]:
    return json.loads(KEPT.read_text()) if KEPT.exists() else {}


def keep(cell: Cell, run: dict[str, Any], since: str = "") -> None:
    """Keep a run beside the cell's others, in place of those from before a date."""
    kept = {**load(), cell.key: [*runs(cell, since), run]}
    KEPT.parent.mkdir(parents=True, exist_ok=True)
    KEPT.write_text(json.dumps(kept, sort_keys=True).replace("}], ", "}],\n") + "\n")


def measure_missing(chosen: Sequence[Cell], since: str = "", seconds: float = math.inf) -> None:
    """Run what is missing, for so long; say what was found."""
    end = time.monotonic() + seconds
    for cell in missing(chosen, since):
        if time.monotonic() + cell.guess_s * (cell.steps + 3) + 4 > end:
            return
        run = measure(cell)
        keep(cell, run, since)
        step = step_ms([run])
        print(
            f"{cell.key}: {step['median']:.1f} ms [{step['p10']:.1f} .. {step['p90']:.1f}], "
            f"{run['steps_disturbed']} of {len(run['steps_ms'])} steps disturbed, "
            f"workers' CPU {1e3 * run['workers_cpu_s']:.0f} ms, load {run['load']}",
            file=sys.stderr,
            flush=True,
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=120.0, help="stop after so long")
    parser.add_argument("--since", default="", help=f"repeat what is older ({DATE})")
    options = parser.parse_args()
    measure_missing(all_cells(), options.since, options.seconds)


if __name__ == "__main__":
    main()
