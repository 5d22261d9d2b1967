"""Show where a step's time goes: per rank, on the critical path, by lane, and the memory peak.

GRAPH is a folder written by Paceline, a run that holds one, or Chakra traces.
"""

import argparse
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from paceline.cli import Shown
from paceline.cli._arguments import add_graph, calibration_of, count
from paceline.cli._more import TOPICS, analysed, as_rows, shown
from paceline.cli._question import OptionError

if TYPE_CHECKING:
    from paceline.cluster import Device


def configure(parser: argparse.ArgumentParser) -> None:
    add_graph(parser)
    parser.add_argument(
        "--top", type=count, default=8, metavar="N", help="rows per table (default 8)"
    )
    one = parser.add_mutually_exclusive_group()
    one.add_argument(
        "--collectives", action="store_true", help="each collective: skew, transfer, bandwidth"
    )
    one.add_argument("--more", choices=TOPICS, metavar="TOPIC", help=f"one of {', '.join(TOPICS)}")
    one.add_argument(
        "--efficiency",
        action="store_true",
        help="what the step is spent on, memory by structure, kernels against their device",
    )
    against = parser.add_mutually_exclusive_group()
    against.add_argument(
        "--recorded-device", default="", metavar="NAME",
        help="with --efficiency, the device recorded on (default: as the recording says)",
    )  # fmt: skip
    against.add_argument("--calibration", type=Path, metavar="FILE",
                        help="with --efficiency, this machine as `paceline measure` found it "
                        "(default for a job on processors: the best that its operators "
                        "reached)")  # fmt: skip


def run(options: argparse.Namespace) -> Shown:
    if (options.recorded_device or options.calibration) and not options.efficiency:
        raise OptionError(
            "--recorded-device and --calibration are what operators are held against: give "
            "--efficiency too"
        )
    if options.more:
        return _more(options)
    return _efficiency(options) if options.efficiency else _summary(options)


def _more(options: argparse.Namespace) -> Shown:
    from paceline.report import working

    with working(f"analysing {options.graph}"):
        found = analysed(options.more, options.graph, options.top)
    table = shown(options.more, found, options.top)
    return Shown({options.more: as_rows(found)}, lambda console: console.print(table))


def _efficiency(options: argparse.Namespace) -> Shown:
    from paceline.analyse.observations import observed
    from paceline.bench.measured import figures_of
    from paceline.report import working
    from paceline.report.text.efficiency import show_figures

    with working(f"replaying {options.graph}"):
        seen = figures_of(options.graph, _device(options), options.top)
        said = observed(seen)
    told = asdict(seen.efficiency) if seen.efficiency else {}
    data = {
        **told,
        "usage": asdict(seen.usage),
        "structure": asdict(seen.structure) if seen.structure else None,
        "observations": [asdict(each) for each in said],
    }
    return Shown(data, lambda console: show_figures(seen, said, console))


def _device(options: argparse.Namespace) -> "Device | None":
    """What the operators are held against, where it is told."""
    from paceline.cluster.files import device
    from paceline.history import host_machine_of

    if options.calibration:
        made = calibration_of(options, host_machine_of(Path(options.graph)))
        assert made is not None, "it was given"
        return made.device()
    return device(options.recorded_device) if options.recorded_device else None


def _summary(options: argparse.Namespace) -> Shown:
    from paceline.replay import replay
    from paceline.report import working
    from paceline.report.overview import overview_of
    from paceline.report.text.overview import show_overview
    from paceline.report.text.run import collectives_table
    from paceline.trace.runs import open_run

    with working(f"replaying {options.graph}"):
        found = overview_of(replay(open_run(options.graph)), options.top)

    def render(console: Any) -> None:
        if options.collectives:
            console.print(collectives_table(found.run.collectives))
        else:
            show_overview(found, console, options.top)

    held = [asdict(peak) for peak in found.peaks]
    data = {**asdict(found.summary), "run": asdict(found.run), "memory_by_rank": held}
    return Shown(data, render)
