"""`make demo`: where does a training step's time go, and what would make it faster?

The job is made up: data-parallel training over rings of links, in the shape of a ResNet on 8 ranks.
Its graph and its timeline are kept in runs/demo (or the folder given as the argument).
"""

import sys
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

from paceline.graph import Graph, Overlay, save_graph
from paceline.graph.synthetic import Ring, ring
from paceline.replay import replay
from paceline.report import Summary, summarise, write_perfetto
from paceline.report.text import breakdown_table, headline
from paceline.report.text.quantities import duration

JOB = Ring(ranks=8, jitter=0.05, link_bytes_per_s=1_250_000_000)


@dataclass(frozen=True)
class WhatIf:
    """A change to try: which ops, and what their durations are multiplied by."""

    name: str
    selection: str
    factor: float


CHANGES = (
    WhatIf("links twice as fast", "kind=transfer", 0.5),
    WhatIf("computation twice as fast", "kind=compute", 0.5),
    WhatIf("backward pass 20 % faster", "phase=backward", 0.8),
    WhatIf("rank 3 half as fast", "rank=3,kind=compute", 2.0),
)


def main(folder: Path) -> None:
    console = Console(highlight=False)
    graph = ring(JOB)
    timeline = replay(graph)
    before = summarise(timeline)
    console.print("A made-up job: 8 ranks, data parallel, all-reduce over a 10 Gbit/s ring.\n")
    console.print(headline(before), end="\n\n")
    console.print(breakdown_table(before))
    console.print("\nWhat if?\n")
    console.print(ranking(graph, before))
    saved = save_graph(graph, folder / "graph")
    trace = write_perfetto(graph, timeline, folder / "timeline.json.gz")
    console.print(f"\nMore:  paceline show {saved}")
    console.print(f"       paceline predict {saved} --scale kind=transfer:0.5")
    console.print(f"       open {trace} at https://ui.perfetto.dev")


def ranking(graph: Graph, before: Summary) -> Table:
    """Every change replayed, the best first."""
    steps = {change: predicted_ns(graph, change) for change in CHANGES}
    table = Table(box=None, pad_edge=False)
    for name in ("change", "step", "times as fast"):
        table.add_column(name, justify="left" if name == "change" else "right")
    for change, step_ns in sorted(steps.items(), key=lambda item: item[1]):
        table.add_row(change.name, duration(step_ns), f"{before.step_ns / step_ns:.2f}")
    return table


def predicted_ns(graph: Graph, change: WhatIf) -> int:
    edits = Overlay(graph)
    edits.scale(edits.select(change.selection), change.factor)
    return replay(edits.freeze()).step_ns


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "runs/demo"))
