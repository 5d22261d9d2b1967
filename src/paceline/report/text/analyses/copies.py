"""Memory copies, what moves most first; the bandwidth's curve over the recorded time."""

from collections.abc import Sequence

from paceline.analyse.copies import Copies
from paceline.report.text.quantities import duration, size
from paceline.report.text.table import TableRows, curve, short


def copies_rows(found: Sequence[Copies], top: int) -> TableRows:
    columns = ("copy", "rank", "times", "bytes", "time", "rate", "rate over time")
    rows = (
        (
            short(row.name),
            str(row.rank),
            str(row.count),
            size(row.size_bytes),
            duration(row.total_ns),
            f"{size(row.mean_bytes_per_s)}/s",
            curve(row.bytes_per_s[::3]),
        )
        for row in found[:top]
    )
    return TableRows.of("memory copies whose size is known", columns, rows)
