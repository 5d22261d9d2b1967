"""Kernels across ranks, what takes most first."""

from collections.abc import Sequence

from paceline.analyse.kernels import Kernel
from paceline.report.text.quantities import duration
from paceline.report.text.table import TableRows, short


def kernels_rows(found: Sequence[Kernel], top: int) -> TableRows:
    columns = ("kernel", "times", "in all", "shortest", "longest", "slowest rank", "above mean")
    rows = (
        (
            short(row.name),
            str(row.count),
            duration(row.total_ns),
            duration(row.least_ns),
            duration(row.most_ns),
            str(max(row.by_rank_ns, key=lambda rank: row.by_rank_ns[rank])),
            f"{100 * row.imbalance:.1f} %",
        )
        for row in found[:top]
    )
    return TableRows.of("kernels on all ranks and in all steps", columns, rows)
