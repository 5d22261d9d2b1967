"""Rows of the page's tables and bars, out of summaries."""

from collections.abc import Mapping, Sequence

import numpy as np

from paceline.graph import Graph, OpKind
from paceline.graph.graph import Int64
from paceline.predict import Prediction
from paceline.replay import Timeline
from paceline.report.page.contents import Meetings, PathRow, PlanRow, RankRow
from paceline.report.page.tracks import hosts_of
from paceline.report.run import RunSummary
from paceline.report.summary import OnPath, Summary
from paceline.report.text.breakdown import STATES
from paceline.report.text.prediction import CLASSES
from paceline.strategies import Plan

MOST_MEETINGS = 2000
_WORTH_SAYING = 0.01


def rank_rows(timeline: Timeline, summary: Summary) -> tuple[RankRow, ...]:
    """By host, then by rank."""
    host = hosts_of(timeline.graph)
    rows = (
        RankRow(rank, host[rank], tuple(shares[state] for state in STATES))
        for rank, shares in summary.rank_shares.items()
    )
    return tuple(sorted(rows, key=lambda row: (row.host, row.rank)))


def waited_for(timeline: Timeline, run: RunSummary) -> tuple[int, int] | None:
    """The rank that others wait for longest, and how long."""
    worst = run.stragglers[0] if run.stragglers else None
    if worst is None or worst.caused_ns < _WORTH_SAYING * timeline.step_ns:
        return None
    return worst.rank, worst.caused_ns


def kind_rows(timeline: Timeline, shares: Mapping[str, int]) -> tuple[PathRow, ...]:
    """Shares of the critical path by kind."""
    kind = timeline.graph.ops.kind[timeline.critical_path.ops]
    found = ((name, np.flatnonzero(kind == OpKind[name.upper()])) for name in shares)
    return tuple(_row(timeline, name, "", shares[name], rows) for name, rows in found)


def layer_rows(timeline: Timeline, shares: Mapping[str, int]) -> tuple[PathRow, ...]:
    """Shares of the critical path by layer."""
    layer = timeline.graph.ops.layer[timeline.critical_path.ops]
    place = _places(timeline.graph)
    found = ((name, np.flatnonzero(layer == place[name])) for name in shares)
    return tuple(_row(timeline, name, "", shares[name], rows) for name, rows in found)


def op_rows(timeline: Timeline, found: Sequence[OnPath]) -> tuple[PathRow, ...]:
    """Ops of one name and kind on the critical path."""
    ops, path, place = timeline.graph.ops, timeline.critical_path.ops, _places(timeline.graph)
    name, kind = ops.name[path], ops.kind[path]
    return tuple(
        _row(
            timeline,
            each.name,
            each.kind,
            each.share_ns,
            np.flatnonzero((name == place[each.name]) & (kind == OpKind[each.kind.upper()])),
        )
        for each in found
    )


def meetings_of(timeline: Timeline, run: RunSummary) -> Meetings:
    """The collectives that took longest, in order of time; groups and who came late."""
    longest = sorted(run.collectives, key=lambda m: -(m.transfer_ns * len(m.ranks) + m.waiting_ns))
    kept = {meeting.instance for meeting in longest[:MOST_MEETINGS]}
    rows = tuple(
        (m.instance, m.name, m.collective, m.group, len(m.ranks), m.step, m.size_bytes,
         m.skew_ns, m.transfer_ns, m.waiting_ns, round(m.bus_bytes_per_s), m.late_rank,
         int(timeline.members_of(m.instance)[0]))
        for m in run.collectives
        if m.instance in kept
    )  # fmt: skip
    groups = tuple(
        (g.group, g.ranks, g.meetings, g.size_bytes, g.waiting_ns, g.transfer_ns)
        for g in run.groups
    )
    late = tuple((s.rank, s.times, s.caused_ns, s.op, s.excess_ns) for s in run.stragglers)
    return Meetings(len(run.collectives), rows, groups, late)


def plan_row(plan: Plan, before: Prediction, after: Prediction, measured_ns: int | None) -> PlanRow:
    """What a plan is predicted to bring, and what a run under it took."""
    old, new = before.by_class, after.by_class
    return PlanRow(
        strategies=tuple(str(each) for each in plan.strategies),
        before_ns=before.step_ns,
        after_ns=after.step_ns,
        low_ns=after.low_ns,
        high_ns=after.high_ns,
        classes=tuple(
            (name, old.get(name, 0), new.get(name, 0))
            for name in CLASSES
            if old.get(name) or new.get(name)
        ),
        measured_ns=measured_ns,
        error=None if measured_ns is None else after.step_ns / measured_ns - 1,
        within=None if measured_ns is None else after.low_ns <= measured_ns <= after.high_ns,
    )


def _row(timeline: Timeline, name: str, detail: str, share_ns: int, rows: Int64) -> PathRow:
    """With the op that weighs most among these rows of the path."""
    path = timeline.critical_path
    op = int(path.ops[rows[np.argmax(path.share_ns[rows])]]) if len(rows) else None
    return PathRow(name, detail, len(rows), share_ns, op)


def _places(graph: Graph) -> dict[str, int]:
    return {text: index for index, text in enumerate(graph.names)}
