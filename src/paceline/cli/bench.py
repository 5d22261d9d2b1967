"""Train the suite of workloads, and say what they make of this machine: paceline bench run dlrm

paceline bench list                                 what there is
paceline bench run                                  all workloads, each at five batch sizes
paceline bench run vit gnn --batch-sizes 16 64 --workers 1 2 -o bench
paceline bench run --quality                        train each until it is good enough
paceline bench run --batch-sizes 16 64 --job 'python train.py --batch {batch} --steps {steps}'
paceline bench compare bench-before bench-after     two machines, or two versions

A sweep that was interrupted goes on where it stopped; remove the folder to measure anew. Rows of
another machine, version of torch or number of threads do not count. It leaves report.json,
report.md and plots. See docs/workloads.md.
"""

import argparse
import math
import shlex
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from paceline.cli import Shown
from paceline.cli._arguments import count

if TYPE_CHECKING:
    from paceline.bench.asked import Sweep


def configure(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(metavar="ACTION", required=True)
    listing = actions.add_parser("list", help="the workloads")
    listing.set_defaults(action=_list)
    run = actions.add_parser("run", help="measure workloads, or train them")
    _configure_run(run)
    run.set_defaults(action=_run)
    compare = actions.add_parser("compare", help="two reports")
    compare.add_argument("first", type=Path, help="a sweep's folder, or its report.json")
    compare.add_argument("second", type=Path)
    compare.set_defaults(action=_compare)
    for action in (listing, run, compare):
        action.add_argument("--json", action="store_true", help="print one JSON object")


def _configure_run(run: argparse.ArgumentParser) -> None:
    run.add_argument("names", nargs="*", metavar="NAME", help="workloads (all)")
    run.add_argument("-o", "--output", type=Path, default=Path("bench"), metavar="FOLDER",
                     help="keeps rows, report and plots (bench)")  # fmt: skip
    run.add_argument("--job", metavar="COMMAND",
                     help="a job of your own in place of workloads, with {batch}, and where it "
                     "takes them {workers} and {steps}")  # fmt: skip
    run.add_argument("--batch-sizes", type=count, nargs="+", default=[], metavar="N",
                     help="samples of a worker's step (each workload's own five)")  # fmt: skip
    run.add_argument("--workers", type=count, nargs="+", default=[1], metavar="N")
    run.add_argument("--threads", type=count, default=1, metavar="N", help="of a worker (1)")
    run.add_argument("--steps", type=count, default=5, metavar="N",
                     help="recorded, and as many without instruments, twice (5)")  # fmt: skip
    run.add_argument("--quality", action="store_true", help="train to the target instead")
    run.add_argument("--memory-limit", metavar="SIZE",
                     help="of a worker's training (its part of what is free)")  # fmt: skip
    run.add_argument("--data", type=Path, metavar="FOLDER", help="that holds `fashion-mnist`")
    run.add_argument("--budget", type=float, default=math.inf, metavar="MINUTES",
                     help="begin nothing after so long; run again, it goes on (none)")  # fmt: skip
    run.add_argument("--keep-runs", action="store_true", help="recordings too")


def run(options: argparse.Namespace) -> Shown:
    action: Callable[[argparse.Namespace], Shown] = options.action
    return action(options)


def _list(options: argparse.Namespace) -> Shown:
    from paceline.bench import named, names
    from paceline.report.bench import tables
    from paceline.report.bench.shown import show_cells

    found = [named(name) for name in names()]
    data = [
        {
            "name": each.name,
            "domain": each.domain.value,
            "model": each.model,
            "data": each.data,
            "quality": asdict(each.quality),
            "pace": asdict(each.pace),
            "spread": each.spread.value,
            "needs": list(each.needs),
        }
        for each in found
    ]
    return Shown({"workloads": data}, lambda c: show_cells("", tables.suite(found), c))


def _run(options: argparse.Namespace) -> Shown:
    return _quality(options) if options.quality else _sweep(options)


def _sweep(options: argparse.Namespace) -> Shown:
    from paceline.bench.sweep import swept
    from paceline.report import working
    from paceline.report.bench.pages import write_page
    from paceline.report.bench.shown import show_report

    with working("measuring workloads") as told:
        report = swept(_asked(options), told)
        page = write_page(report, options.output)

    def render(console: Any) -> None:
        show_report(report, console)
        console.print(f"kept in {page}", soft_wrap=True)

    return Shown(_plain(report), render, int(bool(report.failed)))


def _quality(options: argparse.Namespace) -> Shown:
    from paceline.bench.quality import trained
    from paceline.report import working
    from paceline.report.bench import tables
    from paceline.report.bench.shown import show_cells

    with working("training workloads") as told:
        rows, failed = trained(_asked(options), told)
    fine = not failed and all(row.reached for row in rows)
    data = {
        "all_reached": fine,
        "seconds": sum(row.seconds for row in rows),
        "rows": [asdict(row) for row in rows],
        "failed": failed,
    }

    def render(console: Any) -> None:
        show_cells("trained to their quality", tables.reached(rows), console)
        for what, why in failed.items():
            console.print(f"not trained: {what}: {why}", markup=False, soft_wrap=True)

    return Shown(data, render, int(not fine))


def _compare(options: argparse.Namespace) -> Shown:
    from paceline.bench.against import against
    from paceline.bench.kept import load_report
    from paceline.report.bench.shown import show_against

    found = against(load_report(options.first), load_report(options.second))
    data = {**_plain(found), "throughput": found.throughput}
    return Shown(data, lambda console: show_against(found, console))


def _asked(options: argparse.Namespace) -> "Sweep":
    from paceline.bench import BenchError
    from paceline.bench.asked import Sweep
    from paceline.cluster.quantities import size

    if options.job and (options.names or options.quality or options.memory_limit):
        raise BenchError(
            "--job is measured in place of workloads: leave their names, --quality and "
            "--memory-limit out"
        )
    limit = size(options.memory_limit, "--memory-limit") if options.memory_limit else 0
    return Sweep(
        folder=options.output,
        names=tuple(options.names),
        batches=tuple(sorted(set(options.batch_sizes))),
        workers=tuple(sorted(set(options.workers))),
        threads=options.threads,
        steps=options.steps,
        limit_bytes=limit,
        data=options.data,
        keep_runs=options.keep_runs,
        own=tuple(shlex.split(options.job or "")),
        end_s=time.monotonic() + 60 * options.budget,
    )


def _plain(value: Any) -> Any:
    import msgspec

    return msgspec.to_builtins(value)
