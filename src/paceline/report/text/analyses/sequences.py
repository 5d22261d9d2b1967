"""Sequences of kernels worth fusing, most predicted gain first."""

from collections.abc import Sequence as Several

from paceline.analyse.sequences import Sequence
from paceline.report.text.quantities import duration
from paceline.report.text.table import TableRows, short


def sequences_rows(found: Several[Sequence], top: int) -> TableRows:
    columns = ("under", "kernels", "times", "in all", "gain a step, at most")
    rows = (
        (
            short(row.under, 28),
            " + ".join(short(name, 24) for name in row.names),
            str(row.times),
            duration(row.total_ns),
            duration(row.gain_ns),
        )
        for row in found[:top]
    )
    return TableRows.of("sequences that recur, and what fusing each would bring", columns, rows)
