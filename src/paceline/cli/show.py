"""Show where a step's time goes: per rank, on the critical path, by lane, and the memory peak.

GRAPH is a folder written by Paceline, a run that holds one, or Chakra traces.
"""

import argparse
from dataclasses import asdict

from paceline.cli import Shown


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("graph", metavar="GRAPH", help="graph or run folder, or Chakra traces")
    parser.add_argument("--top", type=int, default=8, metavar="N", help="rows a table (default 8)")


def run(options: argparse.Namespace) -> Shown:
    from paceline.graph.formats import read_graph
    from paceline.replay import replay
    from paceline.report import summarise
    from paceline.report.text import show_summary

    summary = summarise(replay(read_graph(options.graph)), options.top)
    return Shown(asdict(summary), lambda console: show_summary(summary, console))
