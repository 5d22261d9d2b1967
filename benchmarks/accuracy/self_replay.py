"""Does the graph of a recording, replayed, take as long as the same step takes unrecorded?

For each job, several recordings. A recording times some steps without any instrument before those
that it records and as many after them, in the same processes; the replayed median step is set
against the mean of the two plain medians. That is a fair pair: on a shared machine a step's time
drifts by several percent within seconds, and a line through before and after takes that out. The
row's error is the median over its recordings, with their spread.

`apart` is how far the plain steps of recorded jobs lie from jobs that ran without Paceline in
between, as wholly separate processes: recording must not change the job that it looks at. It holds
all of the machine's drift between two runs, so its own spread stands beside it.

Other programs on the machine slow some runs and not others. A round in which they used more than
`CALM` of it is repeated, up to half as many again; `others` is the most in a round that counts.

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
    parser.add_argument("--rounds", type=int, default=6, help="recordings a row (6)")
    parser.add_argument("--steps", type=int, default=20, help="steps recorded in each (20)")
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
    """Median steps in milliseconds, and what others used of the machine."""

    plain: float  # of the recorded job, while nothing was recorded
    replayed: float
    recorded: float
    apart: float  # of the job on its own
    others: float

    @property
    def error(self) -> float:
        return self.replayed / self.plain - 1


def row(job: Job, options: argparse.Namespace) -> dict[str, Any]:
    """One job, recorded and on its own in turn, until enough rounds were calm."""
    rounds: list[Round] = []
    while sum(one.others <= CALM for one in rounds) < options.rounds:
        rounds.append(one_round(job, options.steps))
        if 2 * len(rounds) >= 3 * options.rounds:
            break
    kept = sorted(rounds, key=lambda one: one.others)[: options.rounds]
    errors = measure.spread([one.error for one in kept])
    apart = measure.spread([one.plain / one.apart - 1 for one in kept])
    found = {
        "job": job.name,
        **{
            f"{name}_ms": round(statistics.median(getattr(one, name) for one in kept), 3)
            for name in ("plain", "replayed", "recorded", "apart")
        },
        "error": round(errors["median"], 4),
        "error_spread": [round(errors["p10"], 4), round(errors["p90"], 4)],
        "apart": round(apart["median"], 4),
        "apart_spread": [round(apart["p10"], 4), round(apart["p90"], 4)],
        "others": round(max(one.others for one in kept), 3),
        "rounds": [asdict(one) for one in rounds],
    }
    print(json.dumps(found), file=sys.stderr)
    return found


def one_round(job: Job, steps: int) -> Round:
    before = Usage.now()
    with tempfile.TemporaryDirectory() as folder:
        plain, replayed, recorded = recording(job, Path(folder), steps)
        apart = alone(job, Path(folder), steps)
    return Round(plain, replayed, recorded, apart, Usage.now().others_since(before))


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


def alone(job: Job, folder: Path, steps: int) -> float:
    """Median step of a job that nobody watches, in milliseconds, over all ranks."""
    times = folder / "times"
    launch([], job, ["--steps", str(SETTLING + 2 * steps), "--times", str(times)])
    walls = [
        [wall for wall, _ in json.loads(path.read_text())[SETTLING:]]
        for path in sorted(folder.glob("times.*"))
    ]
    return statistics.median(np.mean(walls, axis=0)) / 1e6


def recording(job: Job, folder: Path, steps: int) -> tuple[float, float, float]:
    """Median plain, replayed and recorded step of a recording, in milliseconds."""
    from paceline.record.runs import build_run, read_run
    from paceline.replay import replay

    run = folder / "run"
    paceline = [sys.executable, "-m", "paceline", "record", "-o", str(run)]
    paceline += ["--steps", str(steps), "--plain", str(steps)]
    launch([*paceline, "--"], job, ["--steps", str(3 * steps + 40)])
    graph = build_run(run)
    _, sidecars = read_run(run)
    plain = walls_of(sidecars, "plain")
    sides = [statistics.median(plain[:steps]), statistics.median(plain[steps:])]
    replayed = statistics.median(step_times(graph, replay(graph))) / 1e6
    return statistics.mean(sides), replayed, statistics.median(walls_of(sidecars, "recorded"))


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
