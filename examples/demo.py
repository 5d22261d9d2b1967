"""`make demo`: a training slowed by its network, made faster, and the gain proved.

Two workers train a small network on scikit-learn's digits, 100 Mbit/s between them: in a lab on
this machine where that is allowed, over plain loopback where not. Their training is recorded; what
its time goes to is shown; plans are searched for, the best is tried in the live job, kept if it
helps, and then the training runs to its end under it. All that is made is kept in runs/demo (or
the folder given), a page of it too.
"""

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

import paceline
from paceline import Graph, Place, Tuned, Where

HERE = Path(__file__).parent
JOB = str(HERE / "train_digits.py")
TORCHRUN = (sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2")
LONG, WHOLE = ("--epochs", "400"), ("--epochs", "4")
QUIET = {"TORCH_CPP_LOG_LEVEL": "ERROR", "OMP_NUM_THREADS": "1"}
KNOWN = ("buckets", "fp16", "bf16", "fused_optimizer", "overlap_update", "partition", "priority")
"""What the demo chooses from: what most have met. `paceline strategies` lists all."""
STEPS = 40  # of each side in a trial
LIMIT_S = 240.0
NETWORK = HERE / "slow_link.yaml"


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
    goal = paceline.Goal(paceline.Effect.LOSSY, budget_s=20.0, strategies=KNOWN)
    request = paceline.TuneRequest(
        (*TORCHRUN, JOB, *LONG), folder, goal, where=stage.where,
        place=stage.place, budget_s=LIMIT_S, steps=STEPS,
    )  # fmt: skip
    tuned = paceline.tune(request, environment, lambda what: console.print(f"  ... {what}"))
    graph = tuned.recorded.graph
    console.print("\nWhere does the time go?\n")
    paceline.show(graph, top=4)
    console.print(f"\nWhat if? Unchanged, a step takes {ms(paceline.predict(graph).step_ns)}.\n")
    console.print(ranking(graph))
    console.print("\nSearched, applied, verified:\n")
    paceline.show(tuned)
    compare(tuned, console)
    finish(tuned, stage, environment, console)
    keep(tuned, stage, folder, console)


def network() -> Stage:
    """A lab of two hosts where one can stand, else loopback."""
    cluster = paceline.over_tcp(paceline.load_cluster(NETWORK))
    try:
        with paceline.Lab(cluster, f"demo-{os.getpid()}"):
            pass
    except paceline.LabError as error:
        why = str(error).splitlines()[0]
        return Stage(f"over this machine's loopback (no lab here: {why})", paceline.here, None)
    machine = paceline.Machine(cores=float(len(os.sched_getaffinity(0))))
    where = Where(cluster, paceline.Question(machine=machine))
    return Stage("in a lab with 100 Mbit/s between them", paceline.in_lab(cluster), where)


def ranking(graph: Graph) -> Table:
    """Every change predicted, the best first."""
    before = paceline.predict(graph).step_ns
    steps = {change: paceline.predict(graph, [change.strategy]).step_ns for change in CHANGES}
    table = Table(box=None, pad_edge=False)
    for name in ("change", "step", "times as fast"):
        table.add_column(name, justify="left" if name == "change" else "right")
    for change, step_ns in sorted(steps.items(), key=lambda item: item[1]):
        table.add_row(change.name, ms(step_ns), f"{before / step_ns:.2f}")
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
    plan, folder = paceline.load_plan(tuned.kept), tuned.kept.parent / "applied"
    run = paceline.AppliedRun(plan, (*TORCHRUN, JOB, *WHOLE), folder, stage.place, LIMIT_S)
    ran = paceline.run_to_the_end(run, environment)
    if ran.exit_code:
        console.print(f"\nUnder the plan the training failed: {ran.said}")
        return
    (said,) = {line for line in run.said() if "accuracy" in line}
    console.print(f"\nThe whole training under the plan: {said}.")


def keep(tuned: Tuned, stage: Stage, folder: Path, console: Console) -> None:
    """What can be looked at, and asked, afterwards."""
    graph = tuned.recorded.graph
    saved = paceline.save(graph, folder / "graph")
    trace = paceline.write_perfetto(graph, paceline.replay(graph), folder / "timeline.json.gz")
    console.print(f"\nMore:  {page(graph, stage, folder)}", soft_wrap=True)
    console.print(f"       paceline show {saved}")
    console.print(f"       paceline predict {saved} --scale kind=collective:0.5")
    console.print(f"       open {trace} at https://ui.perfetto.dev")


def page(graph: Graph, stage: Stage, folder: Path) -> str:
    """The report of the run on the stage's network, or what would make it."""
    cluster, question = (stage.where.cluster, stage.where.question) if stage.where else (None, None)
    try:
        written = paceline.report(graph, folder / "report.html", cluster, question)
    except paceline.PacelineError as error:
        return f"no report: {error}"
    return f"open {written} in a browser, and slide the network"


def ms(ns: float) -> str:
    return f"{ns / 1e6:.1f} ms"


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "runs/demo"))
