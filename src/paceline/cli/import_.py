"""Import traces of any profiler into a run that `show`, `predict` and `search` understand.

Formats are recognised by content: PyTorch's Kineto (.json, .json.gz, folders, tars), Chakra
execution traces, NCCL flight-recorder dumps, Chrome-format traces and XPlane files of JAX,
TensorFlow and MXNet.
"""

import argparse
from pathlib import Path
from typing import Any

from paceline.cli import Shown


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("paths", nargs="+", type=Path, metavar="PATH", help="files, folders, tars")
    parser.add_argument("-o", "--out", type=Path, required=True, help="folder of the new run")
    parser.add_argument("--ranks", type=_ranks, help="ranks of the files in the order given: 0,1,2")
    parser.add_argument(
        "--salvage", action="store_true", help="take what truncated files still hold"
    )
    parser.add_argument("--on", default="", metavar="WORKERS",
                        help="one task per rank on processes[:N], dask://[HOST:PORT] or "
                        "ray://[HOST:PORT], which reach the same files")  # fmt: skip


def run(options: argparse.Namespace) -> Shown:
    from paceline.trace.importing import Import, import_traces

    graph = import_traces(
        options.paths, options.out, Import(options.ranks, options.salvage, options.on)
    )
    data = {
        "run": str(options.out),
        "ops": len(graph),
        "dependencies": len(graph.deps),
        "ranks": list(graph.ranks),
        "groups": [{"name": g.name, "ranks": list(g.ranks)} for g in graph.groups],
        "clocks": graph.meta.get("clocks", {}),
        "notes": list(graph.meta.get("notes", [])),
    }
    return Shown(data, lambda console: _render(data, console))


def _render(data: dict[str, Any], console: Any) -> None:
    ranks = data["ranks"]
    console.print(f"{data['ops']:,} ops of {len(ranks)} rank(s) -> {data['run']}")
    for note in data["notes"]:
        console.print(f"[yellow]note:[/] {note}")
    console.print(f"next: paceline show {data['run']}")


def _ranks(text: str) -> tuple[int, ...]:
    try:
        return tuple(int(part) for part in text.split(","))
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text!r} is no list of ranks, such as 0,1,2") from error
