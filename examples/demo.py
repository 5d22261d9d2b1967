"""`make demo`: a training slowed by its network, made faster, and the gain proved.

Two workers train a small network on scikit-learn's digits, 100 Mbit/s between them: in a lab on
this machine where that is allowed, over plain loopback where not. Their training is recorded; what
its time goes to is shown; plans are searched for, the best is tried in the live job, kept if it
helps, and then the training runs to its end under it. All that is made is kept in runs/demo (or
the folder given).
"""

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

from paceline.cluster import parse, with_settings
from paceline.cluster.machine import Machine
from paceline.cluster.tcp import over_tcp
from paceline.graph import Graph, save_graph
from paceline.lab import Lab, LabError
from paceline.launch import Process
from paceline.predict import Question, predict
from paceline.record.launch import hooked
from paceline.replay import replay
from paceline.report import write_perfetto
from paceline.report.run import summarise_run
from paceline.report.text import show_run, tuned_lines
from paceline.report.text.quantities import duration
from paceline.search import Goal
from paceline.strategies import Effect, load_plan
from paceline.strategies.applying import under
from paceline.trial import Place, Watching, here, in_lab, logged
from paceline.tune import Tuned, TuneRequest, Where, tune

JOB = str(Path(__file__).with_name("train_digits.py"))
TORCHRUN = (sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2")
LONG, WHOLE = ("--epochs", "400"), ("--epochs", "4")
QUIET = {"TORCH_CPP_LOG_LEVEL": "ERROR", "OMP_NUM_THREADS": "1"}
KNOWN = ("buckets", "fp16", "bf16", "fused_optimizer", "overlap_update", "partition", "priority")
"""What the demo chooses from: what most have met. `paceline strategies` lists all."""
STEPS = 40  # of each side in a trial
LIMIT_S = 240.0

NETWORK = """
hosts: 2
link: {preset: ethernet-1g}
topology: star
"""
RATE = "100Mbps"


@dataclass(frozen=True)
class WhatIf:
    """A change to ask about."""

    name: str
    strategy: str


CHANGES = (
    WhatIf("communication twice as fast", "scale(select='kind=collective', factor=0.5)"),
    WhatIf("computation twice as fast", "scale(select='kind=compute', factor=0.5)"),
    WhatIf("backward pass 20 % faster", "scale(select='phase=backward', factor=0.8)"),
)


@dataclass(frozen=True)
class Stage:
    """Where the demo's job runs."""

    said: str
    place: Place
    where: Where | None  # None: as recorded


def main(folder: Path) -> None:
    console = Console(highlight=False)
    stage = network()
    console.print(f"Two workers train on handwritten digits, {stage.said}.\n")
    environment = {**QUIET, **os.environ}
    goal = Goal(Effect.LOSSY, budget_s=20.0, strategies=KNOWN)
    request = TuneRequest(
        (*TORCHRUN, JOB, *LONG), folder, goal, where=stage.where,
        place=stage.place, budget_s=LIMIT_S, steps=STEPS,
    )  # fmt: skip
    tuned = tune(request, environment, lambda what: console.print(f"  ... {what}"))
    graph = tuned.recorded.graph
    timeline = replay(graph)
    console.print("\nWhere does the time go?\n")
    show_run(summarise_run(timeline), console, top=5)
    console.print(f"\nWhat if? Unchanged, a step takes {duration(predict(graph).step_ns)}.\n")
    console.print(ranking(graph))
    console.print("\nSearched, applied, verified:\n")
    for line in tuned_lines(tuned):
        console.print(line, markup=False, soft_wrap=True)
    compare(tuned, console)
    finish(tuned, stage, environment, console)
    saved = save_graph(graph, folder / "graph")
    trace = write_perfetto(graph, timeline, folder / "timeline.json.gz")
    console.print(f"\nMore:  paceline show {saved}")
    console.print(f"       paceline predict {saved} --scale kind=collective:0.5")
    console.print(f"       open {trace} at https://ui.perfetto.dev")


def network() -> Stage:
    """A lab of two hosts where one can stand, else loopback."""
    cluster = over_tcp(with_settings(parse(NETWORK), [f"link.rate={RATE}"]))
    try:
        with Lab(cluster, f"demo-{os.getpid()}"):
            pass
    except LabError as error:
        why = str(error).splitlines()[0]
        return Stage(f"over this machine's loopback (no lab here: {why})", here, None)
    machine = Machine(cores=float(len(os.sched_getaffinity(0))))
    where = Where(cluster, Question(machine=machine))
    return Stage(f"in a lab with {RATE} between them", in_lab(cluster), where)


def ranking(graph: Graph) -> Table:
    """Every change predicted, the best first."""
    before = predict(graph).step_ns
    steps = {change: predict(graph, [change.strategy]).step_ns for change in CHANGES}
    table = Table(box=None, pad_edge=False)
    for name in ("change", "step", "times as fast"):
        table.add_column(name, justify="left" if name == "change" else "right")
    for change, step_ns in sorted(steps.items(), key=lambda item: item[1]):
        table.add_row(change.name, duration(step_ns), f"{before / step_ns:.2f}")
    return table


def compare(tuned: Tuned, console: Console) -> None:
    """Predicted against measured, of every plan that was tried."""
    for trial in tuned.trials:
        if trial.outcome.gain is not None:
            error = trial.expected.times / trial.outcome.gain.times - 1
            console.print(
                f"\nPredicted {trial.expected.times:.2f} times as fast, measured "
                f"{trial.outcome.gain.times:.2f}: the prediction is off by {error:+.1%}."
            )


def finish(tuned: Tuned, stage: Stage, environment: Mapping[str, str], console: Console) -> None:
    """The whole training under the plan that was kept."""
    if tuned.kept is None:
        return
    folder = tuned.kept.parent / "applied"
    folder.mkdir(exist_ok=True)
    given = hooked(under(load_plan(tuned.kept), folder, environment))
    process = logged(Process((*TORCHRUN, JOB, *WHOLE), given), folder / "job.log")
    ran = stage.place(process, Watching(lambda: False, lambda: False, LIMIT_S))
    if ran.exit_code:
        console.print(f"\nUnder the plan the training failed: {ran.said}")
        return
    logs = sorted(folder.rglob("*.log"))
    (said,) = {line for log in logs for line in log.read_text().splitlines() if "accuracy" in line}
    console.print(f"\nThe whole training under the plan: {said}.")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "runs/demo"))
