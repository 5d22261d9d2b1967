"""Does every workload of `paceline bench` converge to its named quality, and how long does it take?

Each is trained by `paceline bench run --quality`, on one worker with one thread, to the target that
its file names, on data that is not trained on. `seconds` counts from the first step on, looks at
the quality included; of all workloads together. Rows are kept in `results/workloads-rows` as they
come, so that a run that was cut short, or whose `--budget` was spent, goes on; `--fresh` trains
everything anew. Times of a busy machine are left out. It takes about half an hour.

    python benchmarks/workloads.py --json
    python benchmarks/workloads.py --only gnn decoder
"""

import json
import os
import shutil
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks import measure
from paceline.bench import catalogue, named
from paceline.bench.asked import Sweep
from paceline.bench.point import Reached
from paceline.bench.quality import kept_of, trained, wanted

KEPT = measure.RESULTS / "workloads-rows"
LOADS = "loads.json"
FASHION = Path(__file__).parents[2] / "shared" / "data"
QUICK = ("gnn", "spiking_population")


def main(arguments: list[str] | None = None) -> dict[str, Any]:
    parser = measure.parser(__doc__ or "", waits=False)
    parser.add_argument("--only", nargs="+", default=[], metavar="NAME")
    parser.add_argument("--fresh", action="store_true", help="train anew what is kept")
    parser.add_argument("--data", type=Path, default=FASHION, help="holds `fashion-mnist`")
    parser.add_argument("--budget", type=float, default=60.0, metavar="MINUTES")
    options = parser.parse_args(arguments)
    if options.only and options.save:
        parser.error("--save keeps the figures of all workloads; leave --only out")
    if options.fresh:
        shutil.rmtree(KEPT, ignore_errors=True)
    names = catalogue.chosen(options.only or (QUICK if options.quick else ()))
    found = summary(names, *_rows(names, options))
    return measure.report("workloads", found, options, "torch", "gymnasium", "snntorch")


def summary(
    names: Sequence[str], rows: Sequence[Reached], failed: dict[str, str], loads: dict[str, float]
) -> dict[str, Any]:
    """Whether targets are reached is known once all were trained; how long that took, where the
    machine was quiet all the while."""
    missing = len(names) - len(rows) - len(failed)
    figures = {
        "reached_share": sum(r.reached for r in rows) / len(names) if not missing else None,
        "all_reached": not missing and not failed and all(row.reached for row in rows),
        "seconds": round(sum(row.seconds for row in rows), 1) if not missing else None,
        "slowest_s": round(max((row.seconds for row in rows), default=0.0), 1),
        "failed": failed,
        "missing": missing,
        "rows": [
            {"domain": named(row.workload).domain.value, **asdict(row), "load": loads[row.workload]}
            for row in rows
        ],
    }
    quiet = all(loads[row.workload] <= measure.QUIET for row in rows)
    return figures if quiet else measure.without_times(figures, ("seconds", "slowest_s"))


def _rows(
    names: Sequence[str], options: Any
) -> tuple[list[Reached], dict[str, str], dict[str, float]]:
    """What was trained within the budget, now or before; what could not be, and why; the load."""
    data = options.data if options.data.exists() else None
    end, rows, failed = time.monotonic() + 60 * options.budget, list[Reached](), dict[str, str]()
    for name in names:
        sweep = Sweep(KEPT, (name,), data=data)
        (key,) = wanted(sweep)
        is_new = kept_of(key, sweep) is None
        if is_new and time.monotonic() > end:
            continue
        found, why = trained(sweep, _tell)
        if is_new:
            _keep_load(name)
            _tell("; ".join(map(_told, found)) or f"{name}: {'; '.join(why.values())}")
        rows += found
        failed |= why
    return rows, failed, _loads()


def _loads() -> dict[str, float]:
    """By workload: the machine's when it was trained."""
    path = KEPT / LOADS
    return json.loads(path.read_text()) if path.exists() else {}


def _keep_load(name: str) -> None:
    told = {**_loads(), name: round(os.getloadavg()[0], 2)}
    (KEPT / LOADS).write_text(json.dumps(told, indent=0, sort_keys=True) + "\n")


def _told(row: Reached) -> str:
    verdict = "reached" if row.reached else "not reached"
    return (
        f"{row.workload}: {row.metric} {row.quality:.4g} after {row.steps} steps and "
        f"{row.seconds:.1f} s; target {row.target:g} {verdict}"
    )


def _tell(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
