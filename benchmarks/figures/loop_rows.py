"""The loop, row by row: what was predicted, measured and possible, beside what users do by hand."""

from collections.abc import Mapping, Sequence
from typing import Any

HEAD = ("job", "Mbit/s", "effect", "predicted", "measured", "bound", "best by hand",
        "plan over it", "plan")  # fmt: skip

Row = Mapping[str, Any]


def loop_rows(rows: Sequence[Row]) -> str:
    """In Markdown. A row whose loop ended with an error says so."""
    lines = [HEAD, ("---",) * len(HEAD), *map(_cells, rows)]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in lines)


def _cells(row: Row) -> tuple[str, ...]:
    which = (row["job"], str(row["mbit"]), row["effect"])
    if "failed" in row:
        return *which, "", "failed", "", "", "", ""
    measured = f"{row['measured']:.2f} ({row['low']:.2f} to {row['high']:.2f})"
    kept = "" if row["kept"] else ", not kept"
    names = " + ".join(f"`{part.partition('(')[0]}`" for part in row["plan"])
    return (
        *which,
        f"{row['predicted']:.2f}",
        measured + kept,
        f"{row['bound']:.2f}",
        *_by_hand(row),
        names,
    )


def _by_hand(row: Row) -> tuple[str, str]:
    """The best choice and its gain, and the plan's over it, marked where it is behind beyond
    noise."""
    if "vs_hand" not in row:
        return "", ""
    best = row["best_hand"]
    behind = " (behind)" if row["vs_hand"] < 1 - row["hand_noise"] else ""
    return f"{best} {row['hand_gains'][best]:.2f}", f"{row['vs_hand']:.2f}{behind}"
