"""The memory peak of each device, and what was held then."""

from typing import TYPE_CHECKING

from paceline.report.summary import MemoryPeak, Summary
from paceline.report.text.quantities import duration, share, size

if TYPE_CHECKING:
    from rich.table import Table

_MOST, _NAMED = 8, 3


def memory_table(summary: Summary) -> "Table":
    """Fullest first."""
    from rich.table import Table

    table = Table(title="memory peaks", title_justify="left", box=None, pad_edge=False)
    table.add_column("device")
    table.add_column("peak", justify="right")
    table.add_column("of memory", justify="right")
    table.add_column("at", justify="right")
    table.add_column("held most by", overflow="fold")
    for peak in summary.memory[:_MOST]:
        part = share(peak.peak_bytes, peak.capacity_bytes)
        table.add_row(
            peak.device, size(peak.peak_bytes), part, duration(peak.peak_ns), _holders(peak)
        )
    if len(summary.memory) > _MOST:
        table.caption = f"the fullest {_MOST} of {len(summary.memory):,} devices"
    return table


def _holders(peak: MemoryPeak) -> str:
    return ", ".join(f"{name} {size(held)}" for name, held in peak.largest[:_NAMED])
