"""Noise floors: rows of which this machine, just then, cannot tell what is asked.

A row's `floor` is how far what it measured may lie off by chance: two standard errors, from equal
measurements that took turns with it. A floor of more than half of what is asked of a row leaves
nothing to decide, so the row neither passes nor counts. Where that is so of more than a fifth of
the rows, the whole benchmark says nothing, ends with exit code 4, and nothing of it is kept.
"""

import math
import statistics
from collections.abc import Mapping, Sequence
from typing import Any

NOT_MEASURABLE = 4  # exit code
SHARE = 0.2

Row = Mapping[str, Any]


def floor_of(equal: Sequence[float], taken: int = 0) -> float:
    """Two standard errors, as a share, of the mean of `taken` measurements like these (of all)."""
    if len(equal) < 2:
        return math.inf
    return 2 * statistics.stdev(equal) / statistics.mean(equal) / math.sqrt(taken or len(equal))


def told_apart(rows: Sequence[Row], asked: float) -> tuple[list[Row], list[Row]]:
    """Rows that can be judged by what is asked of each, and those that cannot."""
    good = [row for row in rows if row["floor"] <= asked / 2]
    return good, [row for row in rows if row["floor"] > asked / 2]


def counted(rows: Sequence[Row], asked: float) -> dict[str, Any]:
    """What a result says of its rows."""
    good, lost = told_apart(rows, asked)
    return {
        "rows_judged": len(good),
        "rows_not_measurable": len(lost),
        "floor_median": round(statistics.median(row["floor"] for row in rows), 4) if rows else None,
    }


def refusal(figures: Mapping[str, Any]) -> str | None:
    """One sentence where too few rows can be judged."""
    lost, good = figures.get("rows_not_measurable", 0), figures.get("rows_judged", 0)
    if lost <= SHARE * (lost + good):
        return None
    return (
        f"not measurable here: of {lost + good} rows {lost} vary by chance by more than half of "
        "what is asked of them; nothing is kept. Measure again on a steadier machine "
        "(`paceline doctor --noise` tells)"
    )
