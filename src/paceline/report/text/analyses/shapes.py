"""Operators by the shapes of their inputs, what takes most first."""

from collections.abc import Sequence

from paceline.analyse.shapes import Shaped
from paceline.report.text.quantities import duration
from paceline.report.text.table import TableRows, short


def shapes_rows(found: Sequence[Shaped], top: int) -> TableRows:
    columns = ("operator", "shapes", "times", "on the host")
    rows = (
        (
            short(row.call.name),
            short(" ".join("x".join(map(str, dims)) for dims in row.call.dims if dims)),
            str(row.count),
            duration(1e3 * row.total_us),
        )
        for row in found[:top]
    )
    return TableRows.of("operators by shape, all ranks, with what they call", columns, rows)
