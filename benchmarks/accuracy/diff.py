"""Does `diff` name what made a job slower? Known slow-downs put into recorded jobs, and none.

24 slow-downs of five models (slowdowns.py), each recorded in the lab between two recordings of the
plain job, and 12 pairs of plain recordings. Right is a pair whose first cause is what was put in,
on that rank and in that layer. Eight more slow-downs, recorded when `diff` was done, are
told apart. Recordings are kept in --runs, so a run goes on where the last one stopped.

    python benchmarks/accuracy/diff.py --budget 5 --json
"""

import statistics
import sys
import time
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

from benchmarks.accuracy.slowdowns import (
    HELD_BACK,
    SLOWDOWNS,
    Slowdown,
    put_in_ns,
    record,
    recordings,
    unchanged,
)
from benchmarks.measure import parser, report
from paceline.compare import Cause, Verdict, diff, side_of

RUNS = Path(__file__).parents[2] / "runs" / "diff"
NEAR = 0.10  # attributed time within so much of what was put in


def main(arguments: Sequence[str] | None = None) -> dict[str, Any]:
    made = parser(__doc__ or "")
    made.add_argument("--budget", type=float, default=30.0, help="minutes of recording at most")
    made.add_argument("--runs", type=Path, default=RUNS, help="where recordings are kept")
    options = made.parse_args(arguments)
    record_missing(options.runs, 60 * (1.0 if options.quick else options.budget))
    return report("accuracy/diff", figures(options.runs), options, "torch")


def record_missing(runs: Path, seconds: float) -> None:
    """Record what is not there yet, for so long."""
    end = time.monotonic() + seconds
    for name, row in recordings():
        if not (runs / name).exists() and time.monotonic() < end:
            record(row, runs / name)
            print(f"recorded {name}", file=sys.stderr, flush=True)


def figures(runs: Path) -> dict[str, Any]:
    """Of all pairs of which both recordings are there."""
    before = {row.key: plain for (plain, _), (_, row) in _neighbours()}
    slow, held = (
        [
            _slow_row(row, runs / before[row.key], runs / row.key)
            for row in rows
            if (runs / before[row.key]).exists() and (runs / row.key).exists()
        ]
        for rows in (SLOWDOWNS, HELD_BACK)
    )
    same = [
        _same_row(runs / a, runs / b)
        for a, b in unchanged()
        if (runs / a).exists() and (runs / b).exists()
    ]
    return {
        **_shares(slow, ""),
        **_shares(held, "held_back_"),
        "false_alarms": sum(row["alarm"] for row in same),
        "unchanged_pairs": len(same),
        "rows": slow,
        "held_back_rows": held,
        "unchanged_rows": same,
    }


def _neighbours() -> list[tuple[tuple[str, Slowdown], tuple[str, Slowdown]]]:
    """Each slow-down behind the plain recording made just before it."""
    made = list(recordings())
    return [(a, b) for a, b in pairwise(made) if b[1].named is not None]


def _slow_row(row: Slowdown, before: Path, after: Path) -> dict[str, Any]:
    found = diff(side_of(before), side_of(after))
    first = found.causes[0] if found.causes else None
    put_ns = put_in_ns(row, before, after, found.change_ns)
    attributed_ns = sum(c.share_ns for c in found.causes if _is(row, c))
    return {
        "slowdown": row.key,
        "verdict": found.verdict.value,
        "change": round(found.change, 4),
        "noise": round(found.noise, 4),
        "first": first.kind.value if first else "",
        "right": found.verdict is Verdict.SLOWER and first is not None and _is(row, first),
        "put_in_ms": round(put_ns / 1e6, 3),
        "attributed_ms": round(attributed_ns / 1e6, 3),
        "error": round(attributed_ns / put_ns - 1, 4) if put_ns > 0 else None,
        "causes_ms": {c.kind.value: round(c.share_ns / 1e6, 2) for c in found.causes[:6]},
    }


def _is(row: Slowdown, cause: Cause) -> bool:
    placed = not row.layer or (cause.rank == row.rank and cause.layers[:1] == (row.layer,))
    return cause.kind is row.named and placed


def _same_row(before: Path, after: Path) -> dict[str, Any]:
    found = diff(side_of(before), side_of(after))
    return {
        "pair": f"{before.name} {after.name}",
        "change": round(found.change, 4),
        "noise": round(found.noise, 4),
        "alarm": found.verdict is not Verdict.SAME,
    }


def _shares(rows: Sequence[dict[str, Any]], name: str) -> dict[str, Any]:
    errors = [abs(row["error"]) for row in rows if row["right"] and row["error"] is not None]
    if not rows:
        return {}
    return {
        f"{name}right_share": round(statistics.mean(row["right"] for row in rows), 4),
        f"{name}attributed_error": round(statistics.median(errors), 4) if errors else None,
        f"{name}attributed_near_share": round(
            sum(error <= NEAR for error in errors) / max(1, len(errors)), 4
        ),
        f"{name}attributed_worst_error": round(max(errors), 4) if errors else None,
        f"{name}pairs": len(rows),
    }


if __name__ == "__main__":
    main()
