"""Join recordings of several hosts into one run: paceline join host-a host-b -o runs/whole

Where hosts share no folder, run `paceline record -o FOLDER -- torchrun --nnodes ...` on each and
bring the folders together, by scp or rsync. Clocks are set by what the ranks exchanged.
"""

import argparse
from pathlib import Path
from typing import Any

from paceline.cli import Shown


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("runs", nargs="+", type=Path, metavar="RUN", help="each host's folder")
    parser.add_argument("-o", "--out", type=Path, required=True, help="folder of the whole run")


def run(options: argparse.Namespace) -> Shown:
    from paceline.report import working
    from paceline.trace.joining import join_runs

    with working(f"joining {len(options.runs)} recordings"):
        graph = join_runs(options.runs, options.out)
    data = {
        "run": str(options.out),
        "ops": len(graph),
        "ranks": list(graph.ranks),
        "clocks": graph.meta.get("clocks", {}),
        "notes": list(graph.meta.get("notes", [])),
    }
    return Shown(data, lambda console: _render(data, console))


def _render(data: dict[str, Any], console: Any) -> None:
    console.print(f"{data['ops']:,} ops of {len(data['ranks'])} ranks -> {data['run']}")
    for rank, clock in data["clocks"].items():
        if clock["offset_ns"]:
            by = f"{clock['offset_ns'] / 1e6:+,.3f} ms"
            console.print(f"the clock of rank {rank} was set by {by}")
    for note in data["notes"]:
        console.print(f"note: {note}", markup=False)
    console.print(f"next: paceline show {data['run']}", markup=False)
