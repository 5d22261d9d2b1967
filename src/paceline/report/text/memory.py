"""The memory peak of each device, and what was held then."""

from typing import TYPE_CHECKING

from paceline.analyse.structure import watched
from paceline.predict import Fit, PeakMemory
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


def ranks_table(memory: PeakMemory, before: PeakMemory | None = None) -> "Table":
    """Bytes by category on the fullest rank when it holds most."""
    from rich.table import Table

    peak = memory.fullest
    table = Table(box=None, pad_edge=False)
    table.add_column(f"memory peak, rank {peak.rank}")
    old = before.fullest.by_category if before else {}
    for name in ("before", "after") if before else ("held",):
        table.add_column(name, justify="right")
    for name in sorted({*old, *peak.by_category}, key=lambda name: -peak.by_category.get(name, 0)):
        was = (size(old.get(name, 0)),) if before else ()
        table.add_row(name, *was, size(peak.by_category.get(name, 0)))
    was = (size(before.peak_bytes),) if before else ()
    table.add_row("all", *was, size(peak.peak_bytes))
    return table


def peak_line(memory: PeakMemory) -> str:
    """At which op the fullest rank holds most, how much less the emptiest holds, and which step
    that was seen in where steps differ."""
    peak, least = memory.fullest, min(peak.peak_bytes for peak in memory.ranks)
    where = f"{peak.op} ({peak.phase}{', ' + peak.layer if peak.layer else ''})"
    told = f"reached at {where}; the least of {len(memory.ranks)} ranks' peaks is {size(least)}"
    said = watched(peak)
    return f"{told}; {said}" if said else told


def fit_line(fit: Fit) -> str:
    """Whether a limit holds the peak, what is largest, and by how much it fits or misses."""
    does, rest = ("fits", "to spare") if fit.fits else ("does not fit", "too much")
    return (
        f"memory {does} in {size(fit.limit_bytes)}: rank {fit.rank} holds {size(fit.peak_bytes)}, "
        f"{size(abs(fit.spare_bytes))} {rest}; most of it {fit.largest} "
        f"({size(fit.largest_bytes)})"
    )


def _holders(peak: MemoryPeak) -> str:
    return ", ".join(f"{name} {size(held)}" for name, held in peak.largest[:_NAMED])
