"""What the suite of workloads makes of this machine: docs/workloads-measured, with its plots.

`paceline bench run` over all workloads, each at its five batch sizes with one worker of one thread,
and at the second smallest with two workers. Points are kept in `results/workload-sweep` as they
come, so that a run that was stopped, or whose `--budget` was spent, goes on; `--fresh` measures
them anew. `--save` writes the page, its tables and plots, once nothing is missing. Figures are of
time, so of a quiet machine. It takes about 50 minutes.

    python benchmarks/workload_sweep.py --json
    python benchmarks/workload_sweep.py --budget 20   # again, until nothing is missing
"""

import os
import shutil
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks import measure
from benchmarks.accuracy import suite
from paceline.bench.asked import Sweep
from paceline.bench.kept import save
from paceline.bench.point import Point, Report
from paceline.bench.sweep import swept
from paceline.bench.taught import taught
from paceline.report.bench.pages import write_page

ROOT = Path(__file__).parents[1]
KEPT = measure.RESULTS / "workload-sweep"
PAGE = ROOT / "docs" / "workloads-measured"
FASHION = Path("..") / "shared" / "data"  # from the project: kept rows name it, on any machine
QUICK = ("gnn", "dlrm")


def main(arguments: list[str] | None = None) -> dict[str, Any]:
    parser = measure.parser(__doc__ or "")
    parser.add_argument("--fresh", action="store_true", help="measure anew what is kept")
    parser.add_argument(
        "--data",
        type=Path,
        default=FASHION,
        help="holds `fashion-mnist`; from the project's folder",
    )
    parser.add_argument("--budget", type=float, default=90.0, metavar="MINUTES",
                        help="begin no point after so long (90)")  # fmt: skip
    options = parser.parse_args(arguments)
    os.chdir(ROOT)
    if options.fresh:
        shutil.rmtree(KEPT, ignore_errors=True)
    data = options.data if options.data.exists() else None
    names = QUICK if options.quick else tuple(suite.installed())
    sweep = Sweep(KEPT, names, data=data, end_s=time.monotonic() + 60 * options.budget)
    report = measured(sweep)
    if options.save and not options.quick and not report.failed:
        PAGE.mkdir(parents=True, exist_ok=True)
        print(f"written: {write_page(report, PAGE)}", file=sys.stderr)
    return measure.report("workload_sweep", figures(report), options, "torch")


def measured(sweep: Sweep) -> Report:
    """One report of both numbers of workers."""
    parts = [swept(sweep, _tell)]
    for name in sweep.names:
        two = replace(sweep, names=(name,), batches=(suite.batch_of(name),), workers=(2,))
        parts.append(swept(two, _tell))
    report = replace(
        parts[0],
        points=tuple(point for part in parts for point in part.points),
        unfit=tuple(each for part in parts for each in part.unfit),
        failed=tuple(each for part in parts for each in part.failed),
    )
    save(report, sweep.folder)
    return report


def figures(report: Report) -> dict[str, Any]:
    return {
        "points": len(report.points),
        "missing": dict(report.failed),
        "taught": [each.text for each in taught(report)],
        "rows": [_row(point) for point in report.points],
    }


def _row(point: Point) -> dict[str, Any]:
    held = point.structure
    return {
        "workload": point.key.workload,
        "batch": point.key.batch,
        "workers": point.key.workers,
        "samples_per_s": round(point.throughput, 1),
        "of_peak": round(point.of_peak, 4),
        "peak_bytes": held.peak_bytes if held else None,
    }


def _tell(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
