"""Does the graph of a recording, replayed, take as long as the same step takes unrecorded?

For each job: runs without the recorder and recorded runs in turn. Measured is the median step of
the unrecorded runs; predicted is the median replayed step of the recordings. `noise` is how far
the medians of the unrecorded runs lie apart: no prediction can be judged finer than that.

Other programs on the machine slow some runs and not others. A round (one run of each kind) in which
they used more than `CALM` of it is repeated, up to `--tries` rounds in all; `others` is the most
that they used in a round that counts.

    python benchmarks/accuracy/self_replay.py --json
    python benchmarks/accuracy/self_replay.py --only pipeline --rounds 3
"""

import argparse
import json
import os
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

CALM = 0.04  # share of the machine's CPU time
SETTLING = 10  # first steps of an unrecorded run, not counted


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
    parser.add_argument("--rounds", type=int, default=2, help="runs of each kind a row (2)")
    parser.add_argument("--tries", type=int, default=6, help="rounds at most (6)")
    parser.add_argument("--steps", type=int, default=20, help="steps recorded a run (20)")
    options = parser.parse_args(arguments)
    chosen = [job for job in JOBS if options.only in job.name]
    if options.quick:
        chosen, options.rounds, options.steps = chosen[:2], 1, 10
    rows = [row(job, options) for job in chosen]
    errors = [abs(found["error"]) for found in rows]
    figures = {"mean_error": statistics.mean(errors), "worst_error": max(errors), "rows": rows}
    return measure.report("accuracy/self_replay", figures, options, "torch")


@dataclass(frozen=True)
class Round:
    """One run of each kind: median steps in milliseconds, and what others used of the machine."""

    plain: float
    replayed: float
    recorded: float
    others: float


def row(job: Job, options: argparse.Namespace) -> dict[str, Any]:
    """One job, unrecorded and recorded in turn, until enough rounds were calm."""
    rounds: list[Round] = []
    while len(rounds) < options.tries:
        rounds.append(one_round(job, options.steps))
        if sum(one.others <= CALM for one in rounds) == options.rounds:
            break
    calmest = sorted(rounds, key=lambda one: one.others)[: options.rounds]
    plain = [one.plain for one in calmest]
    measured, predicted, recorded = (
        statistics.median(getattr(one, name) for one in calmest)
        for name in ("plain", "replayed", "recorded")
    )
    found = {
        "job": job.name,
        "measured_ms": round(measured, 3),
        "replayed_ms": round(predicted, 3),
        "recorded_ms": round(recorded, 3),
        "error": round(predicted / measured - 1, 4),
        "noise": round((max(plain) - min(plain)) / measured, 4),
        "others": round(max(one.others for one in calmest), 3),
        "rounds": [asdict(one) for one in rounds],
    }
    print(json.dumps(found), file=sys.stderr)
    return found


def one_round(job: Job, steps: int) -> Round:
    before = Usage.now()
    with tempfile.TemporaryDirectory() as folder:
        plain = unrecorded(job, Path(folder), steps)
        replayed, recorded = recording(job, Path(folder), steps)
    return Round(plain, replayed, recorded, Usage.now().others_since(before))


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


def unrecorded(job: Job, folder: Path, steps: int) -> float:
    """Median step of a run that nobody watches, in milliseconds, over all ranks."""
    times = folder / "times"
    launch([], job, ["--steps", str(SETTLING + 2 * steps), "--times", str(times)])
    walls = [
        [wall for wall, _ in json.loads(path.read_text())[SETTLING:]]
        for path in sorted(folder.glob("times.*"))
    ]
    return statistics.median(np.mean(walls, axis=0)) / 1e6


def recording(job: Job, folder: Path, steps: int) -> tuple[float, float]:
    """Median replayed and median recorded step of a recording, in milliseconds."""
    from paceline.record.runs import build_run, read_run
    from paceline.record.sidecar import Step
    from paceline.replay import replay

    run = folder / "run"
    paceline = [sys.executable, "-m", "paceline", "record", "-o", str(run), "--steps", str(steps)]
    launch([*paceline, "--"], job, ["--steps", str(2 * steps + 40)])
    graph = build_run(run)
    _, sidecars = read_run(run)
    walls = [
        [step.end_ns - step.begin_ns for step in told.of(Step) if step.mode == "recorded"]
        for told in sidecars.values()
    ]
    recorded = statistics.median(np.mean(walls, axis=0)) / 1e6
    return statistics.median(step_times(graph, replay(graph))) / 1e6, recorded


def step_times(graph: Any, timeline: Any) -> list[float]:
    """Nanoseconds of each replayed step: from mark to mark, and to the rank's last op."""
    from paceline.graph import OpKind

    ends = []
    for rank in graph.ranks:
        mine = graph.ops.rank == rank
        marks = timeline.start_ns[mine & (graph.ops.kind == OpKind.MARKER)]
        ends.append([*marks, timeline.end_ns[mine].max()])
    return np.mean(np.diff(ends, axis=1), axis=0).tolist()


def launch(before: list[str], job: Job, settings: list[str]) -> None:
    """Run the job to its end; its output is shown only when it fails."""
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node"]
    script = [str(ROOT / "examples" / "train.py"), "--model", job.model, "--parallel", job.parallel]
    command = [*before, *torchrun, str(job.workers), *script, *job.settings, *settings]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    if done.returncode:
        raise SystemExit(f"{job.name} failed:\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}")


if __name__ == "__main__":
    main()
