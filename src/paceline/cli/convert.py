"""Convert between a graph folder, Chakra traces, and a Perfetto timeline.

The target's format follows from its name, or from --to: NAME.json and NAME.json.gz are a timeline
for https://ui.perfetto.dev; any other name is a folder, of a graph unless --to chakra is given.
"""

import argparse
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from paceline.cli import Shown
from paceline.cli._arguments import add_graph

if TYPE_CHECKING:
    from paceline.graph import Graph


def configure(parser: argparse.ArgumentParser) -> None:
    add_graph(parser, "source")
    parser.add_argument("target", metavar="TARGET", type=Path, help="file or folder to write")
    parser.add_argument("--to", choices=WRITERS, help="format, where the name does not tell it")


def run(options: argparse.Namespace) -> Shown:
    from paceline.report import working
    from paceline.trace.runs import open_run

    with working(f"reading {options.source}"):
        graph = open_run(options.source)
    chosen = options.to or _format_of(options.target)
    path = WRITERS[chosen](graph, options.target)
    data = {"written": str(path), "format": chosen, "ops": len(graph), "ranks": len(graph.ranks)}
    text = f"{path}: {chosen}, {len(graph):,} ops of {len(graph.ranks):,} ranks"
    return Shown(data, lambda console: console.print(text, markup=False, soft_wrap=True))


def _format_of(target: Path) -> str:
    return "perfetto" if target.name.endswith((".json", ".json.gz")) else "graph"


def _to_graph(graph: "Graph", path: Path) -> Path:
    from paceline.graph import save_graph

    return save_graph(graph, path)


def _to_chakra(graph: "Graph", path: Path) -> Path:
    from paceline.graph.chakra import write_chakra

    return write_chakra(graph, path)


def _to_perfetto(graph: "Graph", path: Path) -> Path:
    from paceline.replay import replay
    from paceline.report import write_perfetto

    return write_perfetto(graph, replay(graph), path)


WRITERS: Mapping[str, Callable[["Graph", Path], Path]] = {
    "graph": _to_graph,
    "chakra": _to_chakra,
    "perfetto": _to_perfetto,
}
