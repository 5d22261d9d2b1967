"""All plans of a small transformer on four workers: the order that was predicted, and the measured.

One worker trains the model by the code that `paceline plan --export torch` writes, under the
recorder, alone in the lab. Its blocks and their times become the planner's model. Every plan of
four workers (data, tensor and pipeline ranks and their products, each as DDP and as FSDP2 where
there are data ranks) is priced at 200 Mbit/s and at 1 Gbit/s on the cores of this machine, which
all share; then its exported code is run there. `rank_correlation` is Spearman's of predicted and
measured steps, the lower one of both rates; `order_right` the share of pairs of plans whose steps
differ by more than 3 % that come in the predicted order; `mean_error` and `worst_error` are of the
steps.

`held_back` holds the same of another model (wider, a longer sequence, smaller micro-batches, more
words) at 500 Mbit/s, on which no constant was found; but its errors were in sight when turns of
tensor ranks' messages were first priced. `since` is of a third model (more layers, 300 Mbit/s)
that ran for the first time behind that.

Rows come in a fixed random order and are kept as they come (`plans_rows`), beside what was recorded
and what the machine's cores cost; `--budget MINUTES` begins none behind that. `rows_share` is how
many of them there are.

    python benchmarks/accuracy/plans.py --budget 20 --json
"""

import statistics
import sys
import time
from collections.abc import Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[2]))

from benchmarks import measure
from benchmarks.accuracy import pipeline_lab
from benchmarks.accuracy.plans_rows import (
    HELD_BACK,
    SINCE,
    SMALL,
    WORKERS,
    Keep,
    Planned,
    Size,
    cluster,
    planned,
)
from paceline.cost.decoder import site_of
from paceline.imagine.decoder import DecoderJob
from paceline.place.hybrid import price, spelled

ALIKE = 0.03
QUICK = 6  # rows


def main(arguments: Sequence[str] | None = None) -> dict[str, Any]:
    parser = measure.parser(__doc__ or "")
    parser.add_argument("--budget", type=float, default=30.0, metavar="MINUTES")
    options = parser.parse_args(arguments)
    if refused := pipeline_lab.why_not():
        raise SystemExit(f"no lab stands up here: {refused}")
    if options.quick:
        keep, wanted = Keep(None), planned((SMALL,))[:QUICK]
        measure_missing(keep, wanted, 1.0, steps=4)
        found = figures(keep, wanted, SMALL)
    else:
        keep, wanted = Keep(), [*planned(), *planned((SINCE,))]
        measure_missing(keep, wanted, options.budget, steps=12)
        found = figures(keep, wanted, SMALL)
        found["held_back"] = figures(keep, wanted, HELD_BACK)
        found["since"] = figures(keep, wanted, SINCE)
        found["rows_share"] = sum(one.name in keep.rows for one in wanted) / len(wanted)
    return measure.report("accuracy/plans", found, options, "torch")


def measure_missing(keep: Keep, wanted: Sequence[Planned], minutes: float, steps: int) -> None:
    end = time.monotonic() + 60 * minutes
    for one in wanted:
        if one.name not in keep.rows and time.monotonic() < end:
            keep.machine()
            keep.recorded(one.size)
            took = statistics.median(keep.row(one, steps)["steps_s"])
            print(f"{one.name}: {took:.4f} s", file=sys.stderr, flush=True)


def figures(keep: Keep, wanted: Sequence[Planned], size: Size) -> dict[str, Any]:
    """Of the rows of a size that there are."""
    there = [one for one in wanted if one.size is size and one.name in keep.rows]
    rows = [row(keep, one) for one in there]
    by_rate = [[one for one in rows if one["mbit"] == mbit] for mbit in size.rates_mbit]
    told = [each for each in by_rate if len(each) > 2]
    if not told:
        return {"rows": rows}
    errors = [abs(one["error"]) for one in rows]
    return {
        "rank_correlation": min(map(correlation, told)),
        "order_right": min(map(ordered, told)),
        "mean_error": statistics.mean(errors),
        "worst_error": max(errors),
        "rows": rows,
    }


def row(keep: Keep, one: Planned) -> dict[str, Any]:
    """A plan as priced, and as its code ran."""
    recorded = keep.recorded(one.size)
    site = site_of(cluster(WORKERS, one.mbit), machine=keep.machine())
    asked = recorded.question(site, global_batch=one.size.batch)
    told = DecoderJob(recorded.model, one.job.degrees, one.job.recipe)
    expected, took = price(told, asked.prices()), measure.spread(keep.rows[one.name]["steps_s"])
    return {
        "plan": spelled(one.job),
        "mbit": one.mbit,
        "predicted_s": expected.step_ns / 1e9,
        "median_s": took["median"],
        "error": expected.step_ns / 1e9 / took["median"] - 1,
        "parts_s": {name: ns / 1e9 for name, ns in expected.parts.items()},
        "step_s": took,
        "load": keep.rows[one.name]["load"],
    }


def correlation(rows: Sequence[dict[str, Any]]) -> float:
    """Spearman's, of steps that are all different."""
    told, took = (
        np.argsort(np.argsort([one[name] for one in rows])) for name in ("predicted_s", "median_s")
    )
    return float(np.corrcoef(told, took)[0, 1])


def ordered(rows: Sequence[dict[str, Any]]) -> float:
    """Pairs that differ, in the predicted order."""
    apart = [
        (a, b) for a, b in combinations(rows, 2) if abs(a["median_s"] / b["median_s"] - 1) > ALIKE
    ]
    right = [
        (a["median_s"] < b["median_s"]) == (a["predicted_s"] < b["predicted_s"]) for a, b in apart
    ]
    return statistics.mean(right) if right else 1.0


if __name__ == "__main__":
    main()
