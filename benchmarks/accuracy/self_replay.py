"""Does the graph of a recording, replayed, take as long as the same step takes unrecorded?

For each job, many recordings in one life of its processes (`windows.py`). Each times some steps
without any instrument before those that it records and as many after them; the replayed median
step is set against the mean of the two plain medians. That is a fair pair: on a shared machine a
step's time drifts by a tenth within seconds, and before and after take most of that out. The row's
error is the median over its recordings; `error_spread` is their 10th and 90th percentile, and
`error_deviation` what chance alone lets that median be off by (1.25 standard errors).

`apart` is how far the plain steps of recorded jobs lie from those of a job that ran without
Paceline, once before and once after: recording must not change the job that it looks at. Those are
other processes at another time, so it holds all of the machine's drift.

`others` is the share of the machine that other programs used meanwhile.

    python benchmarks/accuracy/self_replay.py --json
    python benchmarks/accuracy/self_replay.py --only pipeline --windows 3
"""

import argparse
import json
import math
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from benchmarks import measure  # noqa: E402

SETTLING = 10  # first steps of a job on its own, not counted


@dataclass(frozen=True)
class Job:
    """One row: a model, how it is spread over workers, and on how many."""

    model: str
    parallel: str
    workers: int
    settings: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return " ".join((self.model, self.parallel, *self.settings, f"x{self.workers}"))


JOBS = (
    Job("mlp", "ddp", 2, ("--bucket-mb", "25")),
    Job("mlp", "ddp", 2, ("--bucket-mb", "1")),
    Job("cnn", "ddp", 2, ("--batch", "64")),
    Job("resnet20", "ddp", 2, ("--bucket-mb", "1", "--batch", "16")),
    Job("transformer", "ddp", 2, ("--bucket-mb", "25", "--batch", "4")),
    Job("mlp", "fsdp2", 2),
    Job("transformer", "pipeline", 2, ("--batch", "16")),
    Job("transformer", "tensor", 2, ("--batch", "4")),
    Job("mlp", "ddp", 4, ("--bucket-mb", "1")),
    Job("resnet20", "ddp", 4, ("--bucket-mb", "25", "--batch", "16")),
)


def main(arguments: list[str] | None = None) -> dict[str, Any]:
    parser = measure.parser(__doc__)
    parser.add_argument("--only", default="", help="rows whose name has this text")
    parser.add_argument("--windows", type=int, default=12, help="recordings a row (12)")
    parser.add_argument("--steps", type=int, default=10, help="steps recorded in each (10)")
    options = parser.parse_args(arguments)
    chosen = [job for job in JOBS if options.only in job.name]
    if options.quick:
        chosen, options.windows, options.steps = chosen[:2], 1, 10
    rows = [row_in_the_end(job, options) for job in chosen]
    errors = [abs(found["error"]) for found in rows]
    figures = {"mean_error": statistics.mean(errors), "worst_error": max(errors), "rows": rows}
    return measure.report("accuracy/self_replay", figures, options, "torch")


@dataclass(frozen=True)
class Window:
    """One recording's median steps in milliseconds."""

    plain: float  # while nothing was recorded
    replayed: float
    recorded: float

    @property
    def error(self) -> float:
        return self.replayed / self.plain - 1


class JobError(Exception):
    """A job did not end well."""


def row_in_the_end(job: Job, options: argparse.Namespace) -> dict[str, Any]:
    """The row; from the start again, once, where a worker was aborted in gloo's own shutdown."""
    try:
        return row(job, options)
    except JobError as error:
        print(f"again, after: {error}", file=sys.stderr)
        return row(job, options)


def row(job: Job, options: argparse.Namespace) -> dict[str, Any]:
    """One job, on its own, recorded, and on its own again."""
    before = Usage.now()
    with tempfile.TemporaryDirectory() as folder:
        alone = [apart(job, Path(folder), options)]
        windows = recorded(job, Path(folder), options)
        alone.append(apart(job, Path(folder), options))
    errors = [window.error for window in windows]
    spread = measure.spread(errors)
    plain = statistics.median(window.plain for window in windows)
    found = {
        "job": job.name,
        "plain_ms": round(plain, 3),
        "replayed_ms": round(statistics.median(window.replayed for window in windows), 3),
        "recorded_ms": round(statistics.median(window.recorded for window in windows), 3),
        "apart_ms": [round(one, 3) for one in alone],
        "error": round(spread["median"], 4),
        "error_spread": [round(spread["p10"], 4), round(spread["p90"], 4)],
        "error_deviation": round(deviation(errors), 4),
        "apart": round(plain / statistics.mean(alone) - 1, 4),
        "others": round(Usage.now().others_since(before), 3),
        "windows": [asdict(window) for window in windows],
    }
    print(json.dumps(found), file=sys.stderr)
    return found


def deviation(samples: list[float]) -> float:
    """Standard deviation of the median of as many samples."""
    if len(samples) < 2:
        return math.nan
    return 1.25 * statistics.stdev(samples) / math.sqrt(len(samples))


@dataclass(frozen=True)
class Usage:
    """CPU seconds: the machine's, those of them spent on anything, and those on this program."""

    total: float
    busy: float
    ours: float

    @classmethod
    def now(cls) -> "Usage":
        ticks = [int(x) for x in Path("/proc/stat").read_text().split("\n")[0].split()[1:9]]
        idle, second = ticks[3] + ticks[4], os.sysconf("SC_CLK_TCK")
        spent = os.times()
        return cls(sum(ticks) / second, (sum(ticks) - idle) / second, sum(spent[:4]))

    def others_since(self, before: "Usage") -> float:
        """Share of the machine's time that other programs used, or that its host took away."""
        busy, ours = self.busy - before.busy, self.ours - before.ours
        return max(0.0, busy - ours) / (self.total - before.total)


def apart(job: Job, folder: Path, options: argparse.Namespace) -> float:
    """Median step of a job that nobody watches, in milliseconds, over all ranks."""
    times = folder / "times"
    count = SETTLING + options.steps * options.windows // 2
    launch(job, "examples/train.py", "--steps", str(count), "--times", str(times))
    walls = [
        [wall for wall, _ in json.loads(path.read_text())[SETTLING:]]
        for path in sorted(folder.glob("times.*"))
    ]
    return statistics.median(np.mean(walls, axis=0)) / 1e6


def recorded(job: Job, folder: Path, options: argparse.Namespace) -> list[Window]:
    settings = ("--windows", str(options.windows), "--window-steps", str(options.steps))
    launch(job, "benchmarks/accuracy/windows.py", str(folder / "runs"), *settings)
    return [window(folder / "runs" / str(n), options.steps) for n in range(options.windows)]


def window(run: Path, steps: int) -> Window:
    """The figures of one recording, which is deleted."""
    from paceline.record.runs import build_run, read_run
    from paceline.replay import replay

    graph = build_run(run)
    _, sidecars = read_run(run)
    plain, seen = (walls_of(sidecars, mode) for mode in ("plain", "recorded"))
    sides = [statistics.median(plain[:steps]), statistics.median(plain[steps:])]
    replayed = statistics.median(step_times(graph, replay(graph))) / 1e6
    shutil.rmtree(run)
    return Window(statistics.mean(sides), replayed, statistics.median(seen))


def walls_of(sidecars: dict[int, Any], mode: str) -> list[float]:
    """Milliseconds of each step observed in one way, over all ranks."""
    from paceline.record.sidecar import Step

    walls = [
        [step.end_ns - step.begin_ns for step in told.of(Step) if step.mode == mode]
        for told in sidecars.values()
    ]
    return (np.mean(walls, axis=0) / 1e6).tolist()


def step_times(graph: Any, timeline: Any) -> list[float]:
    """Nanoseconds of each replayed step: from mark to mark, and to the rank's last op."""
    from paceline.graph import OpKind

    ends = []
    for rank in graph.ranks:
        mine = graph.ops.rank == rank
        marks = timeline.start_ns[mine & (graph.ops.kind == OpKind.MARKER)]
        ends.append([*marks, timeline.end_ns[mine].max()])
    return np.mean(np.diff(ends, axis=1), axis=0).tolist()


def launch(job: Job, script: str, *settings: str) -> None:
    """Run the job to its end; its output is shown only when it fails."""
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node"]
    chosen = ["--model", job.model, "--parallel", job.parallel, *job.settings]
    command = [*torchrun, str(job.workers), str(ROOT / script), *settings, *chosen]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    if done.returncode:
        raise JobError(f"{job.name} failed:\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}")


if __name__ == "__main__":
    main()
