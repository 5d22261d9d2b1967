"""Idle time by cause, one row a lane."""

from collections.abc import Sequence

from paceline.analyse.idle import Idle, IdleCause
from paceline.report.text.quantities import duration, share
from paceline.report.text.table import TableRows


def idle_rows(found: Sequence[Idle], top: int) -> TableRows:
    causes = [c for c in IdleCause if any(c.value in row.by_cause for row in found)]
    columns = ("rank and lane", "from first to last", "busy", *(f"for {c.value}" for c in causes))
    rows = (
        (
            f"{row.rank} {row.lane}",
            duration(row.span_ns),
            share(row.busy_ns, row.span_ns),
            *(share(row.by_cause.get(cause.value, 0), row.span_ns) for cause in causes),
        )
        for row in found[:top]
    )
    return TableRows.of("busy and waiting, as shares of a lane's time", columns, rows)
