"""Each rank's device as a whole."""

from collections.abc import Sequence

from paceline.analyse.device import DeviceTime
from paceline.report.text.quantities import duration, share
from paceline.report.text.table import TableRows


def device_rows(found: Sequence[DeviceTime], top: int) -> TableRows:
    columns = ("rank", "from first to last", "computes", "both", "communicates", "copies", "idle",
               "communication hidden")  # fmt: skip
    rows = (
        (
            str(row.rank),
            duration(row.span_ns),
            *(share(ns, row.span_ns) for ns in _parts(row)),
            f"{100 * row.overlap:.1f} %",
        )
        for row in found[:top]
    )
    return TableRows.of("devices, all streams together", columns, rows)


def _parts(row: DeviceTime) -> tuple[int, ...]:
    return (row.compute_ns, row.both_ns, row.communication_ns, row.copy_ns, row.idle_ns)
