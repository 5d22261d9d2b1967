"""Predicted against measured step of each strategy alone, and of pairs, in the lab.

2 and 4 workers on this machine's cores, 100 Mbit/s and 1 Gbit/s; an MLP, ResNet-20 and a
transformer under DDP, and jobs that have what a strategy needs: convolutions in a sequence, queries
apart from keys, loaders, FSDP2, stages, tensor-parallel layers, one host (`strategy_plans.py`).
Each job is recorded once, with 2 workers at 1 Gbit/s; every row is predicted from that. Each of the
thirty pairs stands in one setting, drawn with it.

Strategies by which workers share one model are a set of their own (`--shapes`), with recordings and
a calibration of its own hours.

`floor` is what chance alone lets a row be off by, from how much plain blocks differ among
themselves; `plain_error` is that of the prediction without the strategy. Where a strategy takes
several steps to an exchange, the mean step counts.

An ended run goes on where it was. `--budget MINUTES` ends the measuring; `--only NAME` chooses,
`--fresh` measures anew, and without `--only` records and calibrates anew too; with `--again` rows
are repeated whose noise left nothing to decide.
"""

import argparse
import statistics
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

from benchmarks import measure
from benchmarks.accuracy import strategy_recordings
from benchmarks.accuracy.strategy_blocks import forget, kept, measure_missing
from benchmarks.accuracy.strategy_plans import (
    Cell,
    Row,
    Wanted,
    batches_in,
    pairs,
    shapes,
    singles,
)
from benchmarks.accuracy.strategy_recordings import predicted
from benchmarks.floors import counted, told_apart
from paceline.errors import PacelineError

ASKED = 0.12  # of each row
BEYOND_NOISE = 0.04  # gains and losses whose sign must be right

Facts = dict[str, Any]


def main() -> None:
    parser = measure.parser(__doc__ or "")
    parser.add_argument("--budget", type=float, default=20.0, metavar="MINUTES")
    parser.add_argument("--only", action="append", default=[], metavar="NAME")
    parser.add_argument("--pairs", action="store_true", help="pairs of strategies, not single ones")
    parser.add_argument("--shapes", action="store_true", help="those that share one model")
    parser.add_argument("--fresh", action="store_true", help="measure everything anew")
    parser.add_argument("--again", action="store_true", help="measure anew what cannot be judged")
    options = parser.parse_args()
    alone = shapes(options.only) if options.shapes else singles(options.only)
    rows = pairs() if options.pairs else alone
    rows = rows[:5] if options.quick else rows
    kept_in = rows[0][0].kept
    forget(_to_repeat(rows, options), kept_in)
    if options.fresh and not options.only:
        strategy_recordings.forget(kept_in)
    measure_missing(rows, time.monotonic() + 60 * options.budget)
    asked = {"": alone} if options.shapes else {"": alone, "pairs_": pairs()}
    measure.report(f"accuracy/{kept_in}", figures(asked), options, "torch")


def _to_repeat(rows: Sequence[Row], options: argparse.Namespace) -> Iterator[str]:
    found = kept(rows[0][0].kept)
    for cell, plan in rows:
        row = found.get(cell.key(plan), {})
        lost = "failed" in row or ("floor" in row and not told_apart([row], ASKED)[0])
        if options.fresh or (options.again and lost):
            yield cell.key(plan)


def figures(wanted: Mapping[str, Sequence[Row]]) -> dict[str, Any]:
    """Errors over what is kept: of single strategies, and of pairs."""
    found: dict[str, Any] = {}
    for name, asked in wanted.items():
        rows = list(_compared_rows(asked))
        good = [row for row in rows if "error" in row]
        found[f"{name}rows_asked"] = len(asked)
        found[f"{name}rows"] = rows
        judged = told_apart(good, ASKED)[0]
        if judged:
            found |= {f"{name}{key}": value for key, value in _errors(judged).items()}
            fitting = len(asked) - sum("refused" in row for row in rows)
            found[f"{name}share_judged"] = round(len(judged) / fitting, 3)
        if good and not name:
            found |= counted(good, ASKED)
    return found


def _errors(rows: Sequence[Facts]) -> dict[str, Any]:
    worst = max(rows, key=lambda row: abs(row["error"]))
    judged = [row for row in rows if abs(row["measured_gain"]) > BEYOND_NOISE]
    wrong = [row for row in judged if row["measured_gain"] * row["predicted_gain"] <= 0]
    names = sorted({row["plan"] for row in rows})
    return {
        "mean_error": round(statistics.mean(abs(row["error"]) for row in rows), 4),
        "worst_error": round(abs(worst["error"]), 4),
        "worst_row": {key: worst[key] for key in ("plan", "model", "workers", "mbit", "error")},
        "sign_right": not wrong,
        "sign_share": round(1 - len(wrong) / max(1, len(judged)), 4),
        "signs_judged": len(judged),
        "signs_wrong": [
            f"{row['plan']}, {row['model']} x{row['workers']}, {row['mbit']} Mbit/s"
            for row in wrong
        ],
        "plain_mean_error": round(statistics.mean(abs(row["plain_error"]) for row in rows), 4),
        "mean_error_by_plan": {
            name: round(statistics.mean(abs(r["error"]) for r in rows if r["plan"] == name), 4)
            for name in names
        },
    }


def _compared_rows(asked: Sequence[Row]) -> Iterator[Facts]:
    found = kept(asked[0][0].kept)
    for cell, plan in asked:
        row = found.get(cell.key(plan))
        if row is not None:
            told = {"plan": " + ".join(plan), **cell.shown}
            yield {**told, **(_compared(cell, plan, row) if "step_s" in row else row)}


def _compared(cell: Cell, plan: Wanted, row: Facts) -> Facts:
    measured = 1e3 * row["step_s"]["median"] / batches_in(plan)
    plain = 1e3 * row["plain_s"]["median"]
    shown = {
        "measured_ms": round(measured, 2),
        "plain_ms": round(plain, 2),
        "floor": round(row["floor"], 4),
        "load": row["load"],
        "measured": row["measured"],
    }
    try:
        found = predicted(cell, plan).batch_ns / 1e6
    except PacelineError as error:
        return {**shown, "refused": str(error)}
    before = predicted(cell, ()).step_ns / 1e6
    return {
        **shown,
        "predicted_ms": round(found, 2),
        "predicted_plain_ms": round(before, 2),
        "error": round(found / measured - 1, 4),
        "plain_error": round(before / plain - 1, 4),
        "measured_gain": round(plain / measured - 1, 4),
        "predicted_gain": round(before / found - 1, 4),
    }


if __name__ == "__main__":
    main()
