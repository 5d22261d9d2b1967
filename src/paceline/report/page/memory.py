"""Memory of the fullest rank over time, by category."""

from paceline.graph import MemoryCategory
from paceline.replay import Timeline
from paceline.replay.memory_by_rank import RankCurve, rank_curves
from paceline.report.page.columns import Column
from paceline.report.page.contents import FullestRank


def memory_of(timeline: Timeline) -> FullestRank | None:
    """None where the graph does not tell what ops allocate."""
    curves = rank_curves(timeline)
    if not curves:
        return None
    fullest = max(curves, key=lambda curve: curve.peak_bytes)
    return _shown(timeline, fullest)


def _shown(timeline: Timeline, curve: RankCurve) -> FullestRank:
    kept = [c for c in MemoryCategory if curve.held_bytes[c].any()]
    return FullestRank(
        rank=curve.rank,
        categories=tuple(category.name.lower() for category in kept),
        time_ns=Column(curve.time_ns),
        held_bytes=tuple(Column(curve.held_bytes[c]) for c in kept),
        peak_bytes=curve.peak_bytes,
        at_ns=int(curve.time_ns[curve.peak]),
        op=int(curve.op[curve.peak]),
        capacity_bytes=timeline.graph.devices[curve.device].memory_bytes,
    )
