"""Where each rank's step went: six shares that sum to the step exactly.

At every instant a rank is in the first of these states that applies.
"""

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

import numpy as np

from paceline.graph import OpKind
from paceline.graph.graph import Bool, Int64

if TYPE_CHECKING:
    from paceline.replay.timeline import Timeline

_TRANSFERS = (OpKind.COLLECTIVE, OpKind.SEND, OpKind.RECV, OpKind.TRANSFER, OpKind.COPY)
_COMPUTE, _TRANSFER, _WAITING, _DATA = range(4)


@dataclass(frozen=True, eq=False)
class Breakdown:
    """In ns, one row a rank of `ranks`."""

    ranks: tuple[int, ...]
    overlapped_ns: Int64  # computes and transfers at once
    exposed_compute_ns: Int64  # computes only
    exposed_transfer_ns: Int64  # bytes move, nothing computes
    waiting_ns: Int64  # arrived at a collective or message, partners have not
    data_loading_ns: Int64
    idle_ns: Int64  # none of these: host calls and gaps

    def of(self, rank: int) -> dict[str, int]:
        row = self.ranks.index(rank)
        return {f.name: int(getattr(self, f.name)[row]) for f in fields(self)[1:]}


def breakdown(timeline: "Timeline") -> Breakdown:
    """Sweep over the borders of every rank's intervals."""
    graph = timeline.graph
    ranks = np.array(graph.ranks, np.int64)
    rank, kind, begin, end = _intervals(timeline)
    row = np.searchsorted(ranks, np.concatenate([rank, rank]))
    time = np.concatenate([begin, end])
    change = np.repeat(np.array([1, -1]), len(rank))
    order = np.lexsort((time, row))
    row, time = row[order], time[order]
    active = np.zeros((4, len(order)), np.bool_)
    for state in range(4):
        mine = np.where(np.concatenate([kind, kind]) == state, change, 0)
        active[state] = np.cumsum(mine[order]) > 0  # every rank's changes cancel out
    lasts = np.diff(time, append=0)
    lasts[np.r_[row[1:] != row[:-1], np.ones(min(1, len(row)), np.bool_)]] = 0
    return _totals(timeline, tuple(ranks.tolist()), row, lasts, active)


def _totals(
    timeline: "Timeline", ranks: tuple[int, ...], row: Int64, lasts: Int64, active: Bool
) -> Breakdown:
    compute, transfer = active[_COMPUTE], active[_TRANSFER]
    quiet = ~compute & ~transfer
    waiting = quiet & active[_WAITING]
    states = (
        compute & transfer,
        compute & ~transfer,
        transfer & ~compute,
        waiting,
        quiet & ~waiting & active[_DATA],
    )
    shares = np.array([_sum(row[state], lasts[state], len(ranks)) for state in states])
    both, compute_only, transfer_only, waits, data = shares
    idle = timeline.step_ns - shares.sum(axis=0)
    return Breakdown(ranks, both, compute_only, transfer_only, waits, data, idle)


def _sum(row: Int64, lasts: Int64, count: int) -> Int64:
    total = np.zeros(count, np.int64)
    np.add.at(total, row, lasts)
    return total


def _intervals(timeline: "Timeline") -> tuple[Int64, Int64, Int64, Int64]:
    """(rank, state, begin, end) of all that ranks do and wait for."""
    ops = timeline.graph.ops
    moves = np.isin(ops.kind, [int(k) for k in _TRANSFERS])
    waits = moves & (timeline.start_ns > timeline.ready_ns)
    parts = [
        (np.flatnonzero(ops.kind == OpKind.COMPUTE), _COMPUTE, timeline.start_ns, timeline.end_ns),
        (np.flatnonzero(moves), _TRANSFER, timeline.start_ns, timeline.end_ns),
        (np.flatnonzero(waits), _WAITING, timeline.ready_ns, timeline.start_ns),
        (np.flatnonzero(ops.kind == OpKind.DATA), _DATA, timeline.start_ns, timeline.end_ns),
    ]
    rank = np.concatenate([ops.rank[ids] for ids, *_ in parts]).astype(np.int64)
    state = np.concatenate([np.full(len(ids), state) for ids, state, *_ in parts])
    begin = np.concatenate([begin[ids] for ids, _, begin, _ in parts])
    end = np.concatenate([end[ids] for ids, *_, end in parts])
    return rank, state, begin, end
