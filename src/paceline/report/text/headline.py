"""The one sentence to read first."""

from paceline.report.summary import Summary
from paceline.report.text.quantities import duration, share

_NOTICED = 0.05
_WORTH_SAYING = 0.01


def headline(summary: Summary) -> str:
    """`Step 12.3 ms on 4 ranks, 8,800 ops. Critical path: compute 62.1 %, collective 30.4 %.`"""
    step = summary.step_ns
    ranks = f"{summary.ranks:,} rank{'s' * (summary.ranks != 1)}"
    kinds = [
        f"{kind} {share(ns, step)}"
        for kind, ns in summary.path_by_kind.items()
        if ns > _NOTICED * step
    ]
    path = f" Critical path: {', '.join(kinds)}." if kinds else ""
    found = f"{path}{_core_wait(summary)}{_straggler(summary)}"
    return f"{_lasts(summary)} on {ranks}, {summary.ops:,} ops.{found}"


def _core_wait(summary: Summary) -> str:
    """Where threads had to share cores."""
    waited = summary.core_wait_ns / max(1, summary.step_ns)
    return f" {100 * waited:.0f} % waiting for a core." if waited >= _WORTH_SAYING else ""


def _lasts(summary: Summary) -> str:
    if summary.steps <= 1:
        return f"Step {duration(summary.step_ns)}"
    each = duration(summary.step_ns / summary.steps)
    return f"{summary.steps} steps in {duration(summary.step_ns)}, {each} each,"


def _straggler(summary: Summary) -> str:
    """Who waits much, and for whom: the rank that waits least."""
    waits = {rank: shares["waiting_ns"] for rank, shares in summary.rank_shares.items()}
    if len(waits) < 2:
        return ""
    most, least = max(waits, key=lambda r: waits[r]), min(waits, key=lambda r: waits[r])
    if waits[most] - waits[least] < _NOTICED * summary.step_ns:
        return ""
    return (
        f" Rank {most} waits {duration(waits[most])} for others, rank {least} "
        f"{duration(waits[least])}: the work is uneven."
    )
