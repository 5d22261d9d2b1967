"""Hardware counters by range."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from paceline.analyse.counters import Counter
from paceline.report.text.table import plain_table, short

if TYPE_CHECKING:
    from rich.table import Table


def counters_table(found: Sequence[Counter], top: int) -> "Table":
    if not found:
        return plain_table("the traces hold no hardware counters", (), ())
    columns = ("range", "counter", "times", "sum", "mean")
    rows = (
        (short(c.range_name), c.counter, str(c.count), f"{c.total:,.6g}", f"{c.mean:,.6g}")
        for c in found[:top]
    )
    return plain_table("hardware counters", columns, rows)
