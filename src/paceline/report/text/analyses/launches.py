"""Launches, one row a rank; the queue's curve from the first launch to the last."""

from collections.abc import Sequence

from paceline.analyse.launches import LATE_NS, Launches
from paceline.report.text.quantities import duration
from paceline.report.text.table import TableRows, curve


def launches_rows(found: Sequence[Launches], top: int) -> TableRows:
    late = f"later than {duration(LATE_NS)}"
    columns = ("rank", "launches", "shorter than their call", late, "median delay",
               "mean queue", "most", "nothing to do", "queue over time")  # fmt: skip
    rows = (
        (
            str(row.rank),
            str(row.count),
            str(row.short),
            str(row.late),
            duration(row.delay_median_ns),
            f"{row.queue_mean:.1f}",
            str(row.queue_most),
            f"{100 * row.empty_share:.1f} %",
            curve(row.queue[::3]),
        )
        for row in found[:top]
    )
    return TableRows.of("launches of kernels", columns, rows)
