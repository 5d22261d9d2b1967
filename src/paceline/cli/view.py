"""Serve a run's page to the browser on this machine: paceline view RUN

paceline view runs/a runs/b --cluster cluster.yaml --cores 2

The page is that of `paceline report`, and can ask for what a file cannot hold: any strategy,
another cluster, a search with its progress, the other runs. Only this machine reaches it, by an
address with a token. Ctrl-C ends it.
"""

import argparse
from functools import partial
from pathlib import Path
from typing import Any

from paceline.cli import Shown
from paceline.cli._arguments import add_graph
from paceline.cli._question import add_place, placed


def configure(parser: argparse.ArgumentParser) -> None:
    add_graph(parser, "run")
    parser.add_argument("others", nargs="*", metavar="RUN", help="more runs, each with its page")
    add_place(parser)
    parser.add_argument("--port", type=int, default=0, help="(default: any that is free)")
    parser.add_argument("--open", action="store_true", help="open it in the browser")


def run(options: argparse.Namespace) -> Shown:
    import webbrowser
    from contextlib import suppress
    from threading import Event

    from paceline.report.page import template
    from paceline.viewer import Viewer, serving

    viewer = Viewer(_viewed(options), template())
    with serving(viewer, options.port) as server:
        print(f"{server.address}  (Ctrl-C ends it)", flush=True)
        if options.open:
            webbrowser.open(server.address)
        with suppress(KeyboardInterrupt):
            Event().wait()
    return Shown({"served": [each.name for each in viewer.runs]}, lambda console: None)


def _viewed(options: argparse.Namespace) -> tuple[Any, ...]:
    from paceline.report import working
    from paceline.viewer import Viewed

    place, found = placed(options, options.run), []
    for path in map(Path, (options.run, *options.others)):
        with working(f"opening {path}"):
            found.append(Viewed.of(path, partial(_asked, path, place)))
    return tuple(found)


def _asked(path: Path, place: Any, graph: Any) -> Any:
    from paceline.report.page import PageRequest, carried_by_default

    return PageRequest(
        name=path.resolve().name,
        folder=path,
        graph=graph,
        cluster=place.cluster,
        question=place.question,
        strategies=carried_by_default(graph, place.cluster),
    )
