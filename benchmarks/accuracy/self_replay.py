"""Does the graph of a recording, replayed, take as long as the same step takes unrecorded?

Each row is a job that `paceline record` starts and records, again and again from the start. The
recorder times some steps without any instrument before those that it records and as many after
them; the replayed median step is set against the plain median (the mean of both sides' medians: on
a shared machine a step drifts by a tenth within seconds, and before and after take most of that
out; before alone where the recording spared the later ones page faults). The row's error is the
median over its recordings; `error_spread` is their 10th and 90th percentile, and `error_deviation`
what chance alone lets that median be off by (1.25 standard errors).

Between them the same job runs without Paceline: `apart` is how far the plain steps of recorded jobs
lie from its steps. Those are other processes at another time, so it holds all of the drift.

`others` is the share of the machine that other programs used meanwhile.

    python benchmarks/accuracy/self_replay.py --json
    python benchmarks/accuracy/self_replay.py --only pipeline --recordings 3
    python benchmarks/accuracy/self_replay.py --suite --json

With `--suite` the jobs are the workloads of `paceline bench`, on one worker and on two. Where steps
are shorter than 50 ms, up to sixty of them are recorded, and recorded and plain steps take turns:
blocks of so little time meet different moments of a shared machine. `memory_error` is the worst
error of a memory peak by structure against tensors that were counted (`suite_memory`). Rows are
kept in `results/self-replay-suite-rows.json` as they come, so that a run that was stopped, or whose
`--budget` was spent, goes on; `--fresh` makes them anew. A row whose job fails says why and is left
to the next run; figures of all rows stand once none is missing. It takes about 45 minutes, without
`--suite` about 25.
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
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, Protocol, TypeVar

import numpy as np

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from benchmarks import kept, measure  # noqa: E402

T = TypeVar("T")
SETTLING = 20  # first steps of a job on its own, not counted
SUITE_S, SUITE_STEPS = 1.0, (12, 60)  # what a recording of the suite lasts, within so many steps
SHORT_MS = 50  # shorter steps of the suite take turns
REST = 30  # steps of a recorded job besides its plain and recorded ones, at most
ALONE = 3  # recordings for each run without Paceline


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

    def command(self, steps: int, *others: str) -> list[str]:
        torchrun = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node"]
        script = [str(self.workers), str(ROOT / "examples" / "train.py"), "--steps", str(steps)]
        chosen = ["--model", self.model, "--parallel", self.parallel, *self.settings]
        return [*torchrun, *script, *chosen, *others]


class AnyJob(Protocol):
    """What a row needs of its job."""

    @property
    def name(self) -> str: ...

    def command(self, steps: int, *others: str) -> list[str]: ...


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
    parser.add_argument("--recordings", type=int, default=5, help="of each row (5)")
    parser.add_argument("--steps", type=int, default=30, help="steps recorded in each (30)")
    parser.set_defaults(turns=False)
    parser.add_argument("--suite", action="store_true", help="the workloads of `paceline bench`")
    parser.add_argument("--fresh", action="store_true", help="with --suite, all rows anew")
    parser.add_argument("--budget", type=float, default=90.0, metavar="MINUTES",
                        help="with --suite: begin no row after so long (90)")  # fmt: skip
    options = parser.parse_args(arguments)
    if options.suite:
        return measure.report(
            "accuracy/self_replay-suite", suite_figures(options), options, "torch"
        )
    chosen = [job for job in JOBS if options.only in job.name]
    if options.quick:
        chosen, options.recordings, options.steps = chosen[:2], 2, 10
    rows = [row(job, options) for job in chosen]
    errors = [abs(found["error"]) for found in rows]
    figures = {"mean_error": statistics.mean(errors), "worst_error": max(errors), "rows": rows}
    return measure.report("accuracy/self_replay", figures, options, "torch")


def suite_figures(options: argparse.Namespace) -> dict[str, Any]:
    """The same of the suite, with more steps where they are short; and what it holds."""
    from benchmarks.accuracy import suite, suite_memory

    begun = time.monotonic()
    jobs = {job.name: job for job in suite.jobs() if options.only in job.name}
    if options.quick:
        jobs = dict(list(jobs.items())[:2])
    makers = {name: partial(suite_row, job, options) for name, job in jobs.items()}
    rows = kept.rows("self-replay-suite", makers, options.budget, fresh=options.fresh)
    left = options.budget - (time.monotonic() - begun) / 60
    names = {job.workload for job in jobs.values()}
    return {
        **suite_errors(list(jobs), rows),
        **suite_memory.figures(names, left, fresh=options.fresh),
    }


def suite_errors(wanted: Sequence[str], rows: Mapping[str, dict[str, Any]]) -> dict[str, Any]:
    """Mean and worst, once every row is there."""
    missing = [name for name in wanted if name not in rows]
    found: dict[str, Any] = {"suite_missing": missing, "suite_rows": list(rows.values())}
    if missing:
        return found
    errors = [abs(row["error"]) for row in rows.values()]
    return {"suite_mean_error": statistics.mean(errors), "suite_worst_error": max(errors), **found}


def suite_row(job: AnyJob, options: argparse.Namespace) -> dict[str, Any]:
    least, most = SUITE_STEPS
    try:
        with tempfile.TemporaryDirectory() as folder:
            step_ms = in_the_end(lambda: apart(job, Path(folder), least))
        steps = min(max(round(SUITE_S * 1e3 / step_ms), least), most)
        chosen = {"steps": steps, "turns": bool(step_ms < SHORT_MS)}
        return row(job, argparse.Namespace(**vars(options) | chosen))
    except JobError as error:
        raise kept.NotMade(str(error)) from error


@dataclass(frozen=True)
class Recorded:
    """One recording's median steps in milliseconds."""

    plain: float  # while nothing was recorded
    replayed: float
    recorded: float

    @property
    def error(self) -> float:
        return self.replayed / self.plain - 1


class JobError(Exception):
    """A job did not end well."""


def row(job: AnyJob, options: argparse.Namespace) -> dict[str, Any]:
    """One job, recorded and on its own in turn."""
    before, alone, recordings = Usage.now(), [], []
    with tempfile.TemporaryDirectory() as folder:
        for number in range(options.recordings):
            if number % ALONE == 0:
                alone.append(in_the_end(lambda: apart(job, Path(folder), options.steps)))
            recordings.append(
                in_the_end(lambda: recording(job, Path(folder), options.steps, turns=options.turns))
            )
    errors = [one.error for one in recordings]
    spread = measure.spread(errors)
    plain = statistics.median(one.plain for one in recordings)
    found = {
        "job": job.name,
        "plain_ms": round(plain, 3),
        "replayed_ms": round(statistics.median(one.replayed for one in recordings), 3),
        "recorded_ms": round(statistics.median(one.recorded for one in recordings), 3),
        "apart_ms": [round(one, 3) for one in alone],
        "error": round(spread["median"], 4),
        "error_spread": [round(spread["p10"], 4), round(spread["p90"], 4)],
        "error_deviation": round(deviation(errors), 4),
        "apart": round(plain / statistics.median(alone) - 1, 4),
        "turns": options.turns,
        "others": round(Usage.now().others_since(before), 3),
        "recordings": [asdict(one) for one in recordings],
    }
    print(json.dumps(found), file=sys.stderr)
    return found


def in_the_end(act: Callable[[], T]) -> T:
    """Once more where a worker was aborted in gloo's own shutdown."""
    try:
        return act()
    except JobError as error:
        print(f"again, after: {error}", file=sys.stderr)
        return act()


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


def apart(job: AnyJob, folder: Path, steps: int) -> float:
    """Median step of a job that nobody watches, in milliseconds, over all ranks."""
    times = folder / "times"
    run(job.command(SETTLING + 2 * steps, "--times", str(times)))
    walls = [
        [wall for wall, _ in json.loads(path.read_text())[SETTLING:]]
        for path in sorted(folder.glob("times.*"))
    ]
    return statistics.median(np.mean(walls, axis=0)) / 1e6


def recording(job: AnyJob, folder: Path, steps: int, *, turns: bool = False) -> Recorded:
    """The figures of one recording, which is deleted; in turns, of plain steps beside recorded."""
    from paceline.replay import replay
    from paceline.trace.runs import build_run, read_run

    place = folder / "run"
    record(job, place, steps, turns=turns)
    graph = build_run(place)
    sidecars = read_run(place)[1]
    replayed = step_times(graph, replay(graph))
    made = Recorded(
        plain_beside(list(sidecars.values()), graph, replayed) / 1e6,
        statistics.median(replayed) / 1e6,
        statistics.median(recorded_steps(sidecars)) / 1e6,
    )
    shutil.rmtree(place)
    return made


def plain_beside(sidecars: list[Any], graph: Any, replayed: list[float]) -> float:
    """Nanoseconds of a plain step where the median replayed step ran: where they took turns, as
    each stretch's neighbours tell; else the mean of both sides' medians."""
    from paceline.trace.plain import plain_sides
    from paceline.trace.turns import beside, walls

    numbers = np.unique(graph.ops.step[graph.ops.step >= 0]).tolist()
    found = beside(sidecars, walls(sidecars) | dict(zip(numbers, replayed)))
    if found is not None:
        return found
    sides = [side for side in plain_sides(sidecars) if side]
    return statistics.mean(statistics.median(side) for side in sides)


def record(job: AnyJob, place: Path, steps: int, *, turns: bool = False) -> None:
    """So many steps of the job recorded into a folder, as many plain ones before and after, or
    among them."""
    command = [sys.executable, "-m", "paceline", "record", "--overwrite", "-o", str(place)]
    command += ["--turns"] if turns else []
    command += ["--steps", str(steps), "--plain", str(steps), "--"]
    run([*command, *job.command(3 * steps + REST)])


def recorded_steps(sidecars: dict[int, Any]) -> list[float]:
    """Nanoseconds of each recorded step, over all ranks."""
    from paceline.record.sidecar import Step

    walls = [
        [step.end_ns - step.begin_ns for step in told.of(Step) if step.mode == "recorded"]
        for told in sidecars.values()
    ]
    return np.mean(walls, axis=0).tolist()


def step_times(graph: Any, timeline: Any) -> list[float]:
    """Nanoseconds of each replayed step: from mark to mark, and to the rank's last op."""
    from paceline.graph import OpKind

    ends = []
    for rank in graph.ranks:
        mine = graph.ops.rank == rank
        marks = timeline.start_ns[mine & (graph.ops.kind == OpKind.MARKER)]
        ends.append([*marks, timeline.end_ns[mine].max()])
    return np.mean(np.diff(ends, axis=1), axis=0).tolist()


def run(command: list[str]) -> None:
    """Run a job to its end; its output is shown only when it fails."""
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    if done.returncode:
        line = " ".join(command)
        raise JobError(f"{line} failed:\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}")


if __name__ == "__main__":
    main()
