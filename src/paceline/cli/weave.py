"""Show the schedules of a shipped program of computation and communication, predict and time them.

Without PROGRAM, what ships. With one, every schedule on every back end: the time predicted from
this machine's rates (probed by its workers, kept by `paceline measure` with --calibration, or with
--cluster a cluster's), or why it cannot run. --time
runs the most promising ones on workers of this machine, each checked against the program as
written.
"""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from paceline.cli import Shown
from paceline.cli._arguments import calibration_of, count

if TYPE_CHECKING:
    from paceline.weave.program import Program
    from paceline.weave.programs.shipped import ProgramSize
    from paceline.weave.tuning import TuningRow


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("program", nargs="?", help="a shipped program, such as adam")
    parser.add_argument("--workers", type=count, default=2, metavar="N", help="ranks (2)")
    parser.add_argument("--elements", type=count, default=4_000_000, metavar="N",
                        help="parameters of an optimizer (4000000)")  # fmt: skip
    parser.add_argument("--rows", type=count, default=2048, metavar="N",
                        help="batch times sequence of a transformer block (2048)")  # fmt: skip
    parser.add_argument("--hidden", type=count, default=512, metavar="N",
                        help="width of a transformer block (512)")  # fmt: skip
    parser.add_argument("--cluster", metavar="FILE", help="predict for this cluster (YAML)")
    parser.add_argument("--set", action="append", default=[], metavar="PATH=VALUE",
                        help="change the cluster, such as link.rate=100Gbps")  # fmt: skip
    parser.add_argument("--calibration", metavar="FILE", type=Path,
                        help="predict by what `paceline measure` kept, not by a probe")  # fmt: skip
    parser.add_argument("--time", action="store_true", help="time them on workers of this machine")
    parser.add_argument("--keep", type=count, default=8, metavar="N", help="how many to time (8)")
    parser.add_argument("--rounds", type=count, default=12, metavar="N", help="of timing (12)")


def run(options: argparse.Namespace) -> Shown:
    if options.program is None:
        return _listed()
    _refuse_mixed(options)
    rows = _on_cluster(options) if options.cluster else _on_this_machine(options)
    data = {
        "program": options.program,
        "workers": options.workers,
        "cluster": options.cluster,
        "rows": [row.document() for row in rows],
    }
    return Shown(data, lambda console: _render(rows, console))


def _listed() -> Shown:
    from paceline.report.text.facts import facts_table
    from paceline.weave.programs.shipped import SHIPPED

    data = {name: program.about for name, program in SHIPPED.items()}
    return Shown(data, lambda console: console.print(facts_table(data)))


def _refuse_mixed(options: argparse.Namespace) -> None:
    from paceline.weave.rules import WeaveError

    if options.cluster and options.time:
        raise WeaveError("--time runs on this machine; leave --cluster out, or predict only")
    if options.cluster and options.calibration:
        raise WeaveError("--calibration tells of this machine; leave it or --cluster out")
    if options.set and not options.cluster:
        raise WeaveError("--set changes a cluster; give one with --cluster FILE")


def _on_cluster(options: argparse.Namespace) -> "tuple[TuningRow, ...]":
    from paceline.cluster import load, with_settings
    from paceline.predict import predict
    from paceline.weave.emit import as_graph
    from paceline.weave.layout import Group
    from paceline.weave.predicted import predicted
    from paceline.weave.programs.shipped import shipped

    cluster = with_settings(load(options.cluster), options.set)
    if cluster.workers != options.workers:
        cluster = cluster.with_workers(options.workers)
    made = shipped(options.program).make(_size(options), Group.world(options.workers))

    def seconds(program: "Program") -> float:
        return 1e-9 * predict(as_graph(program), (), cluster).step_ns

    return predicted(made, seconds)


def _on_this_machine(options: argparse.Namespace) -> "tuple[TuningRow, ...]":
    from paceline.machine import this_machine
    from paceline.report.progress import working
    from paceline.weave.layout import Group
    from paceline.weave.programs.shipped import shipped
    from paceline.weave.workers import WorkerRequest, on_workers

    shipped(options.program).make(_size(options), Group.world(options.workers))  # or says why not
    made = calibration_of(options, this_machine())
    request = WorkerRequest(
        options.program,
        _size(options),
        options.workers,
        options.time,
        options.keep,
        options.rounds,
        made.speeds() if made is not None else None,
    )
    with working("timing schedules" if options.time else "measuring this machine"):
        return on_workers(request)


def _size(options: argparse.Namespace) -> "ProgramSize":
    from paceline.weave.programs.shipped import ProgramSize

    return ProgramSize(options.elements, options.rows, options.hidden)


def _render(rows: "tuple[TuningRow, ...]", console: Any) -> None:
    from paceline.report.text.weave import schedules_table

    console.print(schedules_table(rows))
