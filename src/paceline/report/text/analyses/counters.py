"""Hardware counters by range."""

from collections.abc import Sequence

from paceline.analyse.counters import Counter
from paceline.report.text.table import Rows, short


def counters_rows(found: Sequence[Counter], top: int) -> Rows:
    if not found:
        return Rows.of("the traces hold no hardware counters", (), ())
    columns = ("range", "counter", "times", "sum", "mean")
    rows = (
        (short(c.range_name), c.counter, str(c.count), f"{c.total:,.6g}", f"{c.mean:,.6g}")
        for c in found[:top]
    )
    return Rows.of("hardware counters", columns, rows)
