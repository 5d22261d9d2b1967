"""Show where a step's time goes: per rank, on the critical path, by lane, and the memory peak.

GRAPH is a folder written by Paceline, a run that holds one, or Chakra traces.
"""

import argparse
from dataclasses import asdict
from typing import Any

from paceline.cli import Shown
from paceline.cli._arguments import add_graph, count


def configure(parser: argparse.ArgumentParser) -> None:
    add_graph(parser)
    parser.add_argument(
        "--top", type=count, default=8, metavar="N", help="rows per table (default 8)"
    )
    parser.add_argument(
        "--collectives", action="store_true", help="each collective: skew, transfer, bandwidth"
    )
    parser.add_argument(
        "--efficiency",
        action="store_true",
        help="kernels against their device: rates, share of the roofline, tails, gaps",
    )
    parser.add_argument(
        "--recorded-device", default="", metavar="NAME",
        help="with --efficiency, the device recorded on (default: as the recording says)",
    )  # fmt: skip


def run(options: argparse.Namespace) -> Shown:
    return _efficiency(options) if options.efficiency else _summary(options)


def _efficiency(options: argparse.Namespace) -> Shown:
    from paceline.replay import replay
    from paceline.report import working
    from paceline.report.efficiency import summarise_efficiency
    from paceline.report.text.efficiency import show_efficiency
    from paceline.trace.runs import open_run

    with working(f"replaying {options.graph}"):
        timeline = replay(open_run(options.graph))
        found = summarise_efficiency(timeline, options.recorded_device, options.top)
    return Shown(asdict(found), lambda console: show_efficiency(found, console))


def _summary(options: argparse.Namespace) -> Shown:
    from paceline.predict import PeakMemory
    from paceline.replay import replay
    from paceline.replay.memory_by_rank import rank_peaks
    from paceline.report import summarise, working
    from paceline.report.run import summarise_run
    from paceline.report.text import (
        collectives_table,
        peak_line,
        ranks_table,
        show_run,
        show_summary,
    )
    from paceline.trace.runs import open_run

    with working(f"replaying {options.graph}"):
        timeline = replay(open_run(options.graph))
        summary, run = summarise(timeline, options.top), summarise_run(timeline)
        peaks = rank_peaks(timeline) if timeline.graph.facts.memory else ()

    def render(console: Any) -> None:
        if options.collectives:
            console.print(collectives_table(run.collectives))
            return
        show_summary(summary, console)
        console.print()
        show_run(run, console, options.top)
        if peaks:
            console.print()
            console.print(ranks_table(PeakMemory(peaks)))
            console.print(peak_line(PeakMemory(peaks)), markup=False, soft_wrap=True)

    held = [asdict(peak) for peak in peaks]
    return Shown({**asdict(summary), "run": asdict(run), "memory_by_rank": held}, render)
