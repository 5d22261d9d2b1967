"""Hardware counters by range."""

from collections.abc import Sequence

from paceline.analyse.counters import Counter
from paceline.report.text.table import TableRows, short


def counters_rows(found: Sequence[Counter], top: int) -> TableRows:
    if not found:
        return TableRows.of("the traces hold no hardware counters", (), ())
    columns = ("range", "counter", "times", "sum", "mean")
    rows = (
        (short(c.range_name), c.counter, str(c.count), f"{c.total:,.6g}", f"{c.mean:,.6g}")
        for c in found[:top]
    )
    return TableRows.of("hardware counters", columns, rows)
