"""`make demo`: where does a real training step's time go, and what would make it faster?

Two workers train a small network on scikit-learn's digits. Their training is recorded, replayed and
changed; then it is predicted on a slower and on a faster network, and, where this machine allows a
lab, really run on the slower one. All that is made is kept in runs/demo (or the folder given).
"""

import os
import sys
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

from paceline.cluster import Cluster, parse, with_settings
from paceline.cluster.machine import Machine
from paceline.cluster.tcp import over_tcp
from paceline.graph import Graph, save_graph
from paceline.predict import Prediction, Question, predict
from paceline.record.launch import RecordRequest, launch
from paceline.replay import replay
from paceline.report import write_perfetto
from paceline.report.run import summarise_run
from paceline.report.text import show_run
from paceline.report.text.quantities import duration
from paceline.trace.runs import build_run
from paceline.verify import Proof, Verdict, VerifyError, prove

TRAINING = (
    sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2",
    str(Path(__file__).with_name("train_digits.py")),
)  # fmt: skip
QUIET = {"TORCH_CPP_LOG_LEVEL": "ERROR", "OMP_NUM_THREADS": "1"}


@dataclass(frozen=True)
class WhatIf:
    """A change to try."""

    name: str
    strategy: str


CHANGES = (
    WhatIf("communication twice as fast", "scale(select='kind=collective', factor=0.5)"),
    WhatIf("computation twice as fast", "scale(select='kind=compute', factor=0.5)"),
    WhatIf("backward pass 20 % faster", "scale(select='phase=backward', factor=0.8)"),
    WhatIf("rank 1 half as fast", "scale(select='rank=1,kind=compute', factor=2.0)"),
)


NETWORK = """
hosts: 2
link: {preset: ethernet-1g}
topology: star
"""
SLOWER, FASTER = "100Mbps", "10Gbps"


def main(folder: Path) -> None:
    console = Console(highlight=False)
    console.print("Two workers train on handwritten digits; ten steady steps are recorded.\n")
    request = RecordRequest(TRAINING, folder / "recording", overwrite=True)
    done = launch(request, {**QUIET, **os.environ})
    if done.exit_code:
        raise SystemExit(done.exit_code)
    graph = build_run(done.folder)
    timeline = replay(graph)
    console.print()
    show_run(summarise_run(timeline), console, top=5)
    before = predict(graph).step_ns
    console.print(f"\nWhat if? Unchanged, and with no wait for a core: {duration(before)}.\n")
    console.print(ranking(graph, before))
    elsewhere(graph, folder, console)
    saved = save_graph(graph, folder / "graph")
    trace = write_perfetto(graph, timeline, folder / "timeline.json.gz")
    console.print(f"\nMore:  paceline show {saved}")
    console.print(f"       paceline predict {saved} --scale kind=collective:0.5")
    console.print(f"       open {trace} at https://ui.perfetto.dev")


def elsewhere(graph: Graph, folder: Path, console: Console) -> None:
    """The same job between two hosts: predicted at two rates, the slower one proved."""
    console.print("\nBetween two hosts, all on this machine's cores?\n")
    guesses = {rate: predicted(graph, rate) for rate in (SLOWER, FASTER)}
    here = summarise_run(replay(graph)).median_step_ns
    console.print(f"loopback: a step of {duration(round(here))}, as recorded: no wire to send over")
    for rate, guess in guesses.items():
        console.print(f"{rate:>8}: a step of {between(guess)}")
    try:
        proof = Proof(TRAINING, network(SLOWER), overwrite=True)
        measured = prove(proof, {**QUIET, **os.environ}, folder / "lab")
    except VerifyError as error:
        console.print(f"\nNot proved here: {error}")
        return
    verdict = Verdict(guesses[SLOWER], measured)
    console.print(
        f"\nRun in the lab at {SLOWER}: {duration(measured.step_ns)} "
        f"({duration(measured.low_ns)} to {duration(measured.high_ns)}); "
        f"the prediction is off by {verdict.error:+.1%}."
    )


def predicted(graph: Graph, rate: str) -> Prediction:
    machine = Machine(cores=float(len(os.sched_getaffinity(0))))
    return predict(graph, (), network(rate), Question(machine=machine))


def network(rate: str) -> Cluster:
    """Two hosts at a rate, of which TCP leaves its share to the payload."""
    return over_tcp(with_settings(parse(NETWORK), [f"link.rate={rate}"]))


def between(guess: Prediction) -> str:
    return f"{duration(guess.step_ns)} ({duration(guess.low_ns)} to {duration(guess.high_ns)})"


def ranking(graph: Graph, before: int) -> Table:
    """Every change predicted, the best first, against the unchanged step in ns."""
    steps = {change: predict(graph, [change.strategy]).step_ns for change in CHANGES}
    table = Table(box=None, pad_edge=False)
    for name in ("change", "step", "times as fast"):
        table.add_column(name, justify="left" if name == "change" else "right")
    for change, step_ns in sorted(steps.items(), key=lambda item: item[1]):
        table.add_row(change.name, duration(step_ns), f"{before / step_ns:.2f}")
    return table


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "runs/demo"))
