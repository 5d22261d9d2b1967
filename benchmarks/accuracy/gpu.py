"""Trainings recorded on GPUs: replayed, carried to the other GPU, under strategies, and imagined.

What `jobs/gpu.py` left on a machine with a GPU is kept by `--take FOLDER --device NAME`: of each
recording its typical step in `results/gpu/NAME`, beside the steps that ran without the recorder.
All else needs no GPU:

    python benchmarks/accuracy/gpu.py --json

- `step_*`: the predicted step of an unchanged job against its steps without the recorder.
- `kernels_*`, `carried_*`: of each job that was recorded on two devices, the sum of its kernels and
  its step, carried from each to the other, against what was recorded and measured there; beside
  them what keeping the times would be off by.
- `plans_*`: how much shorter a step is under a strategy, predicted from the plain recording against
  measured in turns with plain steps, in shares of the plain step.
- `imagined_*`: the step of the script imagined for the device, from which nothing was recorded.

Errors are means and worst of |predicted / measured - 1|, of all rows. Steps that were timed behind
a recording alone may be longer than the job's own, where the host sets the pace: `drift` is by how
much the recording's own plain steps grew behind its recorded ones. `floor` is half of what blocks
of a plan differ by.
"""

import json
import statistics
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from benchmarks import measure  # noqa: E402
from paceline.cluster.files import from_document  # noqa: E402
from paceline.cost import price  # noqa: E402
from paceline.cost.ported import kernel_rows  # noqa: E402
from paceline.errors import PacelineError  # noqa: E402
from paceline.graph import Graph, load_graph, save_graph  # noqa: E402
from paceline.graph.condense import condense  # noqa: E402
from paceline.graph.work import Family  # noqa: E402
from paceline.imagine.imagine import ScriptJob, imagine  # noqa: E402
from paceline.predict import predict  # noqa: E402
from paceline.predict.predicting import typical  # noqa: E402
from paceline.record import sidecar  # noqa: E402
from paceline.replay import replay  # noqa: E402
from paceline.trace.plain import all_plain_sides  # noqa: E402
from paceline.trace.runs import build_run  # noqa: E402

KEPT = measure.RESULTS / "gpu"
TIMES = "steps.json"
JOB = ROOT / "benchmarks" / "accuracy" / "jobs" / "gpu.py"
TWO = "two"  # folder of jobs of two workers, which share one device


def main(arguments: Sequence[str] | None = None) -> dict[str, Any]:
    parser = measure.parser(__doc__ or "", waits=False)
    parser.add_argument("--take", type=Path, metavar="FOLDER", help="keep what jobs/gpu.py left")
    parser.add_argument("--device", help="with --take: where it ran, such as h100")
    options = parser.parse_args(arguments)
    if options.take:
        take(options.take, KEPT / options.device)
    jobs = [job for folder in sorted(KEPT.iterdir()) for job in kept(folder)]
    found = {
        **told("step", [own(job) for job in jobs]),
        **told("kernels", list(carried(jobs, kernels_of))),
        **told("carried", list(carried(jobs, steps_of))),
        **told("plans", [row for job in jobs for row in planned(job)]),
        **told("imagined", [] if options.quick else list(imagined(jobs))),
    }
    return measure.report("accuracy/gpu", found, options, "torch")


def take(folder: Path, where: Path) -> None:
    """The typical step of every recording there, and its other steps: those that were timed beside
    the recording, or where the job did not come so far, the recording's own plain ones. Jobs that
    were kept before and are not among them stay."""
    here = where / TIMES
    times: dict[str, Any] = json.loads(here.read_text()) if here.exists() else {}
    for trace in sorted(folder.rglob("rank-0.trace.json")):
        run = trace.parent
        name = str(run.relative_to(folder)).replace("/", "-")
        graph = build_run(run)
        save_graph(condense(graph), where / name)
        told = run.with_name(run.name + ".json")
        plain = {"alone_ms": [graph.facts.plain_step_ns / 1e6], "plans": {}, "of_recording": True}
        times[name] = json.loads(told.read_text()) if told.exists() else plain
        times[name]["drift"] = drifted(run)
    here.write_text(json.dumps(dict(sorted(times.items())), indent=1) + "\n")


def drifted(run: Path) -> float:
    """How much longer a plain step of the recording took behind its recorded ones than before."""
    before, after = all_plain_sides([sidecar.read(run / "rank-0.facts.jsonl")])
    return round(statistics.median(after) / statistics.median(before) - 1, 4)


@dataclass(frozen=True, eq=False)
class Job:
    """One job on one device."""

    device: str
    name: str
    graph: Graph
    times: dict[str, Any]

    @property
    def step_ms(self) -> float:
        """Before the profiler was attached, where that was timed."""
        return statistics.median(self.times.get("before_ms", self.times["alone_ms"]))


def kept(folder: Path) -> Iterator[Job]:
    for name, times in json.loads((folder / TIMES).read_text()).items():
        yield Job(folder.name, name, load_graph(folder / name), times)


def told(figure: str, rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Mean and worst of what was predicted; refused rows say why."""
    errors = [abs(row["error"]) for row in rows if "error" in row]
    found: dict[str, Any] = {f"{figure}_rows": rows}
    if errors:
        found |= {f"{figure}_mean": round(statistics.mean(errors), 4)}
        found |= {f"{figure}_worst": round(max(errors), 4)}
    kept_errors = [abs(row["kept"]) for row in rows if "kept" in row]
    if kept_errors:
        found[f"{figure}_kept"] = round(statistics.mean(kept_errors), 4)
    return found


def own(job: Job) -> dict[str, Any]:
    predicted = predict(job.graph).step_ns / 1e6
    return {"job": job.name, "device": job.device, **beside_steps(predicted, job)}


def beside_steps(predicted_ms: float, job: Job) -> dict[str, Any]:
    """With what the profiler may have added to the steps, where all were timed behind it."""
    behind = {} if "before_ms" in job.times else {"drift": job.times["drift"]}
    return {**compared(predicted_ms, job.step_ms), **behind}


def compared(predicted_ms: float, measured_ms: float) -> dict[str, Any]:
    return {
        "predicted_ms": round(predicted_ms, 3),
        "measured_ms": round(measured_ms, 3),
        "error": round(predicted_ms / measured_ms - 1, 4),
    }


def carried(jobs: Sequence[Job], measured: Any) -> Iterator[dict[str, Any]]:
    """Each job that was recorded on two devices, both ways; of one worker, for two on one device
    wait for each other."""
    alone = [job for job in jobs if not job.name.startswith(TWO)]
    for origin in alone:
        for there in alone:
            if origin.name == there.name and origin.device != there.device:
                yield {"job": origin.name, "from": origin.device, "to": there.device,
                       **measured(origin, there)}  # fmt: skip


def moved(origin: Job, there: Job) -> list[str]:
    return [f"device(name={there.device!r}, recorded={origin.device!r})"]


def steps_of(origin: Job, there: Job) -> dict[str, Any]:
    predicted = predict(origin.graph, moved(origin, there)).step_ns / 1e6
    kept_ms = round(origin.step_ms / there.step_ms - 1, 4)
    return {**beside_steps(predicted, there), "kept": kept_ms}


def kernels_of(origin: Job, there: Job) -> dict[str, Any]:
    from paceline.strategies import parse

    (text,) = moved(origin, there)
    steps = (typical(origin.graph), typical(there.graph))
    made = by_class(parse(text).transform(steps[0]))
    before, wanted = map(by_class, steps)
    whole = sum(wanted.values())
    return {
        **compared(sum(made.values()), whole),
        "kept": round(sum(before.values()) / whole - 1, 4),
        "by_class": {
            name: [round(each.get(name, 0.0), 3) for each in (before, made, wanted)]
            for name in sorted(wanted | made, key=lambda name: -wanted.get(name, 0.0))
        },
    }


def by_class(graph: Graph) -> dict[str, float]:
    """Milliseconds of a step's kernels by family of operators."""
    rows = kernel_rows(graph)
    family = np.array([*(w.work.family for w in graph.works), Family.OTHER])[graph.ops.work[rows]]
    steps = 1e6 * len(np.unique(graph.ops.step))
    took = np.bincount(family, graph.ops.dur_ns[rows], len(Family)) / steps
    return {Family(at).name.lower(): float(ms) for at, ms in enumerate(took) if ms}


def planned(job: Job) -> Iterator[dict[str, Any]]:
    """Each strategy that was tried, in shares of the plain step."""
    plain = predict(job.graph).step_ns
    for text, took in job.times["plans"].items():
        row: dict[str, Any] = {"job": job.name, "device": job.device, "plan": text}
        if "refused" in took:
            yield row | {"refused": took["refused"]}
            continue
        measured = statistics.median(took["plan_ms"]) / statistics.median(took["plain_ms"])
        row["measured_share"] = round(measured, 4)
        row["floor"] = round(scatter(took["plan_ms"]), 4)
        try:
            share = predict(job.graph, text.split(" + ")).step_ns / plain
        except PacelineError as error:
            yield row | {"not_predicted": str(error)[:200]}
            continue
        yield row | {"predicted_share": round(share, 4), "error": round(share / measured - 1, 4)}


def scatter(steps: Sequence[float]) -> float:
    """Half of what blocks of the same steps differ by, as a share of them."""
    return (max(steps) - min(steps)) / 2 / statistics.median(steps)


def imagined(jobs: Sequence[Job]) -> Iterator[dict[str, Any]]:
    """Eager jobs of one worker, by forecasts of the device's kernels and a typical host."""
    for job in jobs:
        if job.name.endswith("eager") and not job.name.startswith(TWO):
            command = (str(JOB), "--bare", "unused", job.name)
            cluster = from_document({"hosts": {"device": job.device}, "link": "ethernet-1g"})
            graph = price(imagine(ScriptJob(command, 1, gpu=True)), cluster)
            step = replay(graph).step_ns / 1e6
            yield {"job": job.name, "device": job.device, **beside_steps(step, job)}


if __name__ == "__main__":
    main()
