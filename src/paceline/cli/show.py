"""Show where a step's time goes: per rank, on the critical path, by lane, and the memory peak.

GRAPH is a folder written by Paceline, a run that holds one, or Chakra traces.
"""

import argparse
from dataclasses import asdict

from paceline.cli import Shown
from paceline.cli._arguments import add_graph, count


def configure(parser: argparse.ArgumentParser) -> None:
    add_graph(parser)
    parser.add_argument(
        "--top", type=count, default=8, metavar="N", help="rows a table (default 8)"
    )


def run(options: argparse.Namespace) -> Shown:
    from paceline.graph.formats import read_graph
    from paceline.replay import replay
    from paceline.report import summarise, working
    from paceline.report.text import show_summary

    with working(f"replaying {options.graph}"):
        summary = summarise(replay(read_graph(options.graph)), options.top)
    return Shown(asdict(summary), lambda console: show_summary(summary, console))
