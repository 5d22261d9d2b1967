"""Does a pipeline take the time and the memory that the planner says, and is 2BW as much faster?

On 2 and 4 gloo workers, over loopback and in the lab at two link rates: GPipe, 1F1B with flush and
2BW, with the same stages. Predicted from a profile taken before and apart, on loopback: processor
time of each stage's passes and of a message's ends in pipelines of twice as many micro-batches, how
well those shared the cores, and a message alone; in the lab the cluster's description takes the
message's place (`pipeline_lab`). Rounds of profiling and running alternate. Times are of a round's
undisturbed tenth, on both sides: on a shared machine other work only ever adds to them, and as root
all jobs go before it. Each round's profile predicts that round's steps; of the rounds the median
ratio counts. A measured step is the mean of four in a row; the spread of all single steps stands
beside. How much faster 2BW is than GPipe is the median of the rounds' ratios of mean steps.

The two cases come one after the other and are kept as they come (`kept`); `--budget MINUTES` begins
none behind that.

    python benchmarks/accuracy/pipeline.py --budget 30 --json
    python benchmarks/accuracy/pipeline.py --loss ../shared/data/fashion-mnist --json

Where no lab stands up its rows are left out and `lab` says why. `--loss` trains on Fashion-MNIST
with 1F1B (synchronous) and 2BW: test accuracy, in points.
"""

import json
import os
import statistics
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

from benchmarks import kept, measure
from benchmarks.accuracy import cells, pipeline_lab
from benchmarks.accuracy.pipeline_profile import AtWork, at_work
from paceline.cluster.machine import Machine
from paceline.place.pipeline import (
    LayerCost,
    PipelinePlan,
    Priced,
    memory_bytes,
    price_on_cores,
)
from paceline.runtime.stages import PipelineSchedule, Shape

SCRIPT = Path(__file__).parent / "jobs" / "stages.py"
SCHEDULES = (PipelineSchedule.GPIPE, PipelineSchedule.ONE_F_ONE_B, PipelineSchedule.TWO_BUFFERED)
ROWS = 128
"""Samples a micro-batch: a stage's pass then takes some ms, far above what Python adds to it."""

KEPT = "pipeline"
LOOPBACK = 0
RATES_MBIT = (1000, 200)
"""In the lab: one at which computing is the limit, and one at which the links are."""

SETTINGS = {
    "OMP_NUM_THREADS": "1",
    # Keep freed memory: else the system clears pages anew for every batch, and the
    # more of them the more micro-batches a schedule keeps.
    "MALLOC_MMAP_THRESHOLD_": str(2**30),
    "MALLOC_TRIM_THRESHOLD_": str(2**32),
}


@dataclass(frozen=True)
class Case:
    stages: int
    microbatches: int

    @property
    def name(self) -> str:
        return f"{self.stages} stages, {self.microbatches} micro-batches"


@dataclass(frozen=True)
class Effort:
    """How often and how long everything is measured, and over which networks."""

    rounds: int
    batches: int
    networks: tuple[int, ...]  # Mbit/s in the lab, or LOOPBACK
    machine: Machine | None  # that the lab stands on


CASES = (Case(2, 4), Case(4, 4))


def main(arguments: list[str] | None = None) -> dict[str, Any]:
    parser = measure.parser(__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--batches", type=int, default=48)
    parser.add_argument("--budget", type=float, default=30.0, metavar="MINUTES")
    parser.add_argument("--fresh", action="store_true", help="measure kept cases anew")
    parser.add_argument(
        "--again", action="store_true",
        help="measure nothing: predict anew from the profiles kept with the last result",
    )  # fmt: skip
    parser.add_argument("--loss", type=Path, metavar="FOLDER", help="Fashion-MNIST")
    parser.add_argument("--epochs", type=int, default=6)
    options = parser.parse_args(arguments)
    if options.loss is not None:
        found = losses(options.loss, 1 if options.quick else options.epochs)
        return measure.report("accuracy/pipeline-loss", found, options, "torch")
    if options.again:
        last = _last()
        found = {
            **_whole(_predicted_again(last["rows"])),
            "lab": "measured before",
            "load": last["load"],
            "measured": last.get("measured", last["date"]),
        }
        return measure.report("accuracy/pipeline", found, options, "torch")
    refused = pipeline_lab.why_not()
    if options.quick:
        rows = case_rows(CASES[0], _effort(1, 12, RATES_MBIT[-1:]))
    else:
        effort = partial(_effort, options.rounds, options.batches, RATES_MBIT)
        makers = {case.name: partial(_case, case, effort) for case in CASES}
        cases = kept.rows(KEPT, makers, options.budget, fresh=options.fresh)
        rows = [row for case in cases.values() for row in case["rows"]]
    found = {**_whole(rows), "lab": f"left out: {refused}" if refused else "measured"}
    return measure.report("accuracy/pipeline", found, options, "torch")


def _effort(rounds: int, batches: int, rates: Sequence[int]) -> Effort:
    """With the lab's machine as it is now, where a lab stands up."""
    if pipeline_lab.why_not():
        return Effort(rounds, batches, (LOOPBACK,), None)
    return Effort(rounds, batches, (LOOPBACK, *rates), pipeline_lab.machine(min(rounds, 4)))


def _case(case: Case, effort: Callable[[], Effort]) -> dict[str, Any]:
    return {"rows": case_rows(case, effort())}


def _whole(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """The worst over all rows, over those of each network, and the rows."""
    names = dict.fromkeys(row["network"] for row in rows)
    apart = {name: summary([row for row in rows if row["network"] == name]) for name in names}
    return {**summary(rows), "by_network": apart, "rows": rows}


def summary(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """The worst error of each kind, and whether 2BW was faster wherever that was promised."""
    beside, flushed = (
        [row[name] for row in rows if name in row] for name in ("versus_gpipe", "versus_1f1b")
    )
    return {
        "time_error": max(row["time_error"] for row in rows),
        "memory_error": max(row["memory_error"] for row in rows),
        "speedup_error": max(row["error"] for row in beside),
        "speedup_error_1f1b": max(row["error"] for row in flushed),
        "faster_wherever_predicted": all(
            row["measured"] > 1 for row in (*beside, *flushed) if row["predicted"] > 1
        ),
    }


def _last() -> dict[str, Any]:
    """The newest result."""
    results = sorted(measure.RESULTS.glob("*-accuracy-pipeline.json"))
    if not results:
        raise SystemExit("no result is kept; run without --again, and with --save")
    last: dict[str, Any] = json.loads(results[-1].read_text())
    return last


def _predicted_again(measured: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Kept measurements beside predictions from the profiles that were kept with them."""
    rows = []
    for old in measured:
        name, case = old["schedule"], next(c for c in CASES if c.name == old["case"])
        network = int(old["network"].split()[1]) if old["network"] != "loopback" else LOOPBACK
        machine = Machine(**old["machine"]) if old["machine"] else None
        found = [({name: [ms * 1e6 for ms in one]}, {name: old["held_bytes"]})
                 for one in old["rounds_ms"]]  # fmt: skip
        schedule = PipelineSchedule(name)
        rows.append(_row(case, network, schedule, old["profiles"], found, machine))
        if schedule is SCHEDULES[-1]:
            rows[-1] |= _gains(rows[-3:])
    return rows


def losses(folder: Path, epochs: int) -> dict[str, Any]:
    """Test accuracy of two seeds, synchronous and 2BW; the difference of their means in points."""
    runs = [_job("train", str(folder), epochs, seed) for seed in (1, 2)]
    means = {name: statistics.mean(run[name] for run in runs) for name in runs[0]}
    return {
        "epochs": epochs,
        "accuracy": means,
        "runs": runs,
        "points_below_synchronous": 100 * (means["1f1b"] - means["2bw"]),
    }


def case_rows(case: Case, effort: Effort) -> list[dict[str, Any]]:
    profiles = []
    found: dict[int, list[_Found]] = {network: [] for network in effort.networks}
    for _ in range(effort.rounds):
        profiles.append(_job("profile", case.stages, ROWS))
        for network, rounds in found.items():
            rounds.append(_measured(case, network, effort.batches))
    rows = []
    for network, rounds in found.items():
        rows += [_row(case, network, s, profiles, rounds, effort.machine) for s in SCHEDULES]
        rows[-1] |= _gains(rows[-3:])
    return rows


_Found = tuple[dict[str, list[float]], dict[str, list[int]]]
"""ns of the steps and bytes held by each stage, by schedule."""


def _measured(case: Case, network: int, batches: int) -> _Found:
    shape = (case.microbatches, ROWS)
    if network != LOOPBACK:
        return pipeline_lab.measure(case.stages, network, (*shape, batches), SETTINGS)
    steps = _job("run", case.stages, *shape, batches)
    return steps, _job("memory", case.stages, *shape)


def _row(
    case: Case,
    network: int,
    schedule: PipelineSchedule,
    profiles: Sequence[dict[str, Any]],
    rounds: Sequence[_Found],
    machine: Machine | None,
) -> dict[str, Any]:
    plan = PipelinePlan(schedule, Shape(case.stages, case.microbatches), ROWS)
    known = [at_work(profile, schedule, ROWS) for profile in profiles]
    predictions = [priced(network, plan, one, machine) for one in known]
    by_round = [times[schedule.value] for times, _ in rounds]
    steps = [ns for times in by_round for ns in times]
    held = rounds[-1][1][schedule.value]
    predicted = _memory(plan, known[-1].stages)
    undisturbed = [measure.spread(_smoothed(times))["p10"] for times in by_round]
    ratios = [one.replayed_step_ns / ns for one, ns in zip(predictions, undisturbed)]
    return {
        "network": f"lab, {network} Mbit/s" if network != LOOPBACK else "loopback",
        "case": case.name,
        "schedule": schedule.value,
        "step_ms": {k: v / 1e6 if k != "n" else v for k, v in measure.spread(steps).items()},
        "undisturbed_ms": statistics.median(undisturbed) / 1e6,
        "predicted_ms": statistics.median(one.replayed_step_ns for one in predictions) / 1e6,
        "formula_ms": statistics.median(one.formula_step_ns for one in predictions) / 1e6,
        "machine": asdict(machine) if machine else None,
        "cores": [one.machine.cores for one in known],
        "predictions_ms": [one.replayed_step_ns / 1e6 for one in predictions],
        "ratios": ratios,
        "profiles": profiles,
        "rounds_ms": [[round(ns / 1e6, 2) for ns in times] for times in by_round],
        "time_error": abs(statistics.median(ratios) - 1),
        "held_bytes": held,
        "predicted_bytes": predicted,
        "memory_error": max(abs(p / m - 1) for p, m in zip(predicted, held)),
    }


def priced(network: int, plan: PipelinePlan, known: AtWork, machine: Machine | None) -> Priced:
    if machine is None or network == LOOPBACK:
        return price_on_cores(plan, known.stages, known.wires, known.machine, batches=6)
    mine = replace(
        machine,
        cores=known.machine.cores,
        rested=known.machine.rested,
        late_ns=known.machine.late_ns,
    )
    return pipeline_lab.predict(plan, known.stages, network, mine)


def _smoothed(steps: Sequence[float]) -> list[float]:
    """Means of four steps in a row: without a flush a late update makes the next one early."""
    return [statistics.mean(steps[i : i + 4]) for i in range(max(1, len(steps) - 3))]


def _gains(rows: Sequence[dict[str, Any]]) -> dict[str, dict[str, float]]:
    """How much faster 2BW is than either schedule that flushes."""
    gpipe, flush, two = rows
    return {"versus_gpipe": _versus(two, gpipe), "versus_1f1b": _versus(two, flush)}


def _versus(two: dict[str, Any], other: dict[str, Any]) -> dict[str, float]:
    """Mean steps of the two in each round, in which they run in turn; the median. What is predicted
    is the median of the rounds' predictions."""
    predictions = zip(other["predictions_ms"], two["predictions_ms"])
    predicted = statistics.median(o / t for o, t in predictions)
    rounds = zip(other["rounds_ms"], two["rounds_ms"])
    measured = statistics.median(statistics.mean(o) / statistics.mean(t) for o, t in rounds)
    return {
        "predicted": predicted,
        "measured": measured,
        "undisturbed": other["undisturbed_ms"] / two["undisturbed_ms"],  # not in pairs
        "error": abs(predicted / measured - 1),
    }


def _memory(plan: PipelinePlan, stages: Sequence[LayerCost]) -> list[int]:
    """The formula's weights and activations, and the messages: one expected from either side, and
    the gradient that was sent last."""
    last = len(stages) - 1
    return [
        held + (2 * cost.input_bytes if i else 0) + (cost.output_bytes if i < last else 0)
        for i, (held, cost) in enumerate(zip(memory_bytes(plan, stages), stages))
    ]


def _job(*what: Any) -> Any:
    environment = {**os.environ, **SETTINGS, "GLOO_SOCKET_IFNAME": "lo"}
    command = [*cells.FIRST, sys.executable, str(SCRIPT), *map(str, what)]
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=400)
    if ended.returncode:
        raise SystemExit(f"{' '.join(map(str, what))} failed:\n{ended.stderr[-3000:]}")
    return json.loads(ended.stdout)


if __name__ == "__main__":
    main()
