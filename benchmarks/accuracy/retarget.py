"""Predicted against measured step time: one recording a model, sixty other settings.

Recorded with 2 workers at 1 Gbit/s and buckets of 25 MB; predicted, and measured in the lab, at 50
to 1,000 Mbit/s, 2 and 4 workers (on this machine's cores), buckets of 1 and 25 MB. Measured cells
and recordings are kept in `benchmarks/results`; `--fresh` makes them anew (about 25 minutes). Short
steps are measured in three runs each, minutes apart (`runs_ms`). Jobs of the `any` and `parallel`
rows run twice; a row whose runs differ by too much to judge it does not count (`floor`).

With `--suite` the rows are the data-parallel workloads of `paceline bench`, each recorded once with
two workers at 1 Gbit/s, predicted at 200 Mbit/s and with four workers (`suite_mean_error`, which
stands once no row is missing). Each setting runs twice, and again up to five times where its runs
differ by too much to judge its row. Runs are kept as they come; a run that was stopped, or whose
`--budget` was spent, goes on, and a job that fails says why. It takes about an hour.

`naive` is the line that needs no graph: the recorded step, with its bytes at another rate.
"""

import argparse
import math
import statistics
import sys
import time
from collections.abc import Mapping
from dataclasses import asdict
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

from benchmarks import measure
from benchmarks.accuracy import cells, elsewhere, recordings
from benchmarks.accuracy.cells import Cell
from benchmarks.accuracy.settings import Effort
from paceline.cluster.machine import Machine
from paceline.graph import Graph
from paceline.predict import Prediction, Question, predict
from paceline.strategies import strategy

MIB = 1024 * 1024
QUICK = (Cell("mlp", 2, 500, 1), Cell("mlp", 2, 200, 25), Cell("mlp", 4, 1000, 25))


def main() -> None:
    parser = measure.parser(__doc__ or "")
    parser.add_argument(
        "--rows", choices=("cells", "any", "parallel", "all"), default="all", help="which to run"
    )
    for kind in ("any", "parallel"):
        parser.add_argument(f"--{kind}", action="store_const", const=kind, dest="rows",
                            help=f"as --rows {kind}")  # fmt: skip
    parser.add_argument("--fresh", action="store_true", help="record and measure everything anew")
    parser.add_argument("--budget", type=float, default=math.inf, metavar="MINUTES",
                        help="record and measure so long; what is kept costs nothing")  # fmt: skip
    parser.add_argument("--suite", action="store_true", help="the workloads of `paceline bench`")
    options = parser.parse_args()
    found: dict[str, Any] = {}
    effort = Effort(options.fresh, time.monotonic() + 60 * options.budget)
    if options.suite:
        measure.report("accuracy/retarget-suite", elsewhere.suite_rows(effort), options, "torch")
        return
    if options.rows in ("cells", "all"):
        found |= cell_figures(options, effort)
    if options.rows in ("any", "all") and not options.quick:
        found |= elsewhere.any_rows(effort)
    if options.rows in ("parallel", "all") and not options.quick:
        found |= elsewhere.parallel_rows(effort)
    found |= judged(found)
    name = "accuracy/retarget" if "rows" in found else f"accuracy/retarget-{options.rows}"
    measure.report(name, found, options, "torch")


def judged(found: Mapping[str, Any]) -> dict[str, int]:
    """How many rows could be judged, and how many this machine was too unsteady for."""
    kinds = [kind for kind in ("any", "parallel") if f"{kind}_count" in found]
    return {
        "rows_judged": sum(found[f"{kind}_count"] for kind in kinds),
        "rows_not_measurable": sum(found[f"{kind}_not_measurable"] for kind in kinds),
    }


def cell_figures(options: argparse.Namespace, effort: Effort) -> dict[str, Any]:
    """The sixty cells of DDP."""
    chosen = QUICK if options.quick else tuple(cells.all_cells())
    models = tuple(dict.fromkeys(cell.model for cell in chosen))
    jobs = recordings.graphs(models, fresh=options.fresh)
    machine = recordings.machine(fresh=options.fresh)
    since = datetime.now(timezone.utc).strftime(cells.DATE) if options.fresh else ""
    cells.measure_missing(chosen, since, effort.end_s - time.monotonic())
    known = [cell for cell in chosen if cells.runs(cell, since)]
    rows = [row(cell, machine, *jobs[cell.model]) for cell in known]
    return {"machine_cost": asdict(machine), **figures(rows, jobs)}


def row(cell: Cell, machine: Machine, graph: Graph, facts: dict[str, Any]) -> dict[str, Any]:
    """One cell: measured and predicted, in milliseconds."""
    found = predicted(cell, graph, machine)
    runs = cells.runs(cell)
    step = cells.step_ms(runs)
    guess = 1e3 * naive_s(cell, facts)
    return {
        **asdict(cell),
        "measured_ms": round(step["median"], 2),
        "measured_p10_ms": round(step["p10"], 2),
        "measured_p90_ms": round(step["p90"], 2),
        "runs_ms": [round(cells.step_ms([run])["median"], 2) for run in runs],
        "measured_at": [run["measured"] for run in runs],
        "measured_load": [run["load"] for run in runs],
        "predicted_ms": round(found.step_ns / 1e6, 2),
        "low_ms": round(found.low_ns / 1e6, 2),
        "high_ms": round(found.high_ns / 1e6, 2),
        "error": round(found.step_ns / 1e6 / step["median"] - 1, 4),
        "naive_error": round(guess / step["median"] - 1, 4),
    }


def predicted(cell: Cell, graph: Graph, machine: Machine) -> Prediction:
    changes = [
        strategy("workers", count=cell.workers),
        strategy("buckets", size_bytes=cell.bucket_mb * MIB),
    ]
    cluster = cells.cluster(cell.workers, cell.mbit)
    return predict(graph, changes, cluster, Question(machine=machine))


def naive_s(cell: Cell, facts: dict[str, Any]) -> float:
    """The recorded step with the bytes of its gradients at another rate, round another ring."""

    def wire(workers: int, mbit: int) -> float:
        volume = 2 * (workers - 1) / workers * cells.GRADIENT_BYTES[cell.model]
        share = cells.cluster(workers, mbit).transport.efficiency
        return volume * 8 / (mbit * 1e6 * share)

    setting = recordings.SETTING
    recorded: float = facts["step_s"]["median"]
    rest = recorded - wire(setting["workers"], setting["mbit"])
    return rest + wire(cell.workers, cell.mbit)


def figures(rows: list[dict[str, Any]], jobs: dict[str, Any]) -> dict[str, Any]:
    errors = [abs(r["error"]) for r in rows]
    worst = max(rows, key=lambda r: abs(r["error"]))
    return {
        "mean_error": round(statistics.mean(errors), 4),
        "worst_error": round(max(errors), 4),
        "worst_cell": {k: worst[k] for k in ("model", "workers", "mbit", "bucket_mb", "error")},
        "median_error": round(statistics.median(errors), 4),
        "within_interval": sum(r["low_ms"] <= r["measured_ms"] <= r["high_ms"] for r in rows),
        "cells": len(rows),
        "naive_mean_error": round(statistics.mean(abs(r["naive_error"]) for r in rows), 4),
        "naive_worst_error": round(max(abs(r["naive_error"]) for r in rows), 4),
        "mean_error_by": {
            name: {
                str(value): round(
                    statistics.mean(abs(r["error"]) for r in rows if r[name] == value), 4
                )
                for value in sorted({r[name] for r in rows}, key=str)
            }
            for name in ("model", "workers", "mbit", "bucket_mb")
        },
        "recordings": {model: facts for model, (_, facts) in jobs.items()},
        "rows": rows,
    }


if __name__ == "__main__":
    main()
