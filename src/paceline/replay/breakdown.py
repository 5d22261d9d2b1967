"""Where each rank's step went: six shares that sum to the step exactly.

At every instant a rank is in the first of these states that applies.
"""

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

import numpy as np

from paceline.graph import OpKind
from paceline.graph.distinct import blocks_of_ranks
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
    parts = [_shares(timeline, rows, ranks) for rows in blocks_of_ranks(graph.ops.rank)]
    shares = np.sum(parts, axis=0)
    both, compute, transfer, waiting, data = shares
    idle = timeline.step_ns - shares.sum(axis=0)
    return Breakdown(graph.ranks, both, compute, transfer, waiting, data, idle)


def _shares(timeline: "Timeline", rows: slice, ranks: Int64) -> Int64:
    """By state and rank, of ops that hold all of their ranks."""
    rank, kind, begin, end = _intervals(timeline, rows)
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
    return _totals(row, lasts, active, len(ranks))


def _totals(row: Int64, lasts: Int64, active: Bool, count: int) -> Int64:
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
    return np.array([_sum(row[state], lasts[state], count) for state in states])


def _sum(row: Int64, lasts: Int64, count: int) -> Int64:
    total = np.zeros(count, np.int64)
    np.add.at(total, row, lasts)
    return total


def _intervals(timeline: "Timeline", rows: slice) -> tuple[Int64, Int64, Int64, Int64]:
    """(rank, state, begin, end) of all that ranks do and wait for."""
    kind, ranks = timeline.graph.ops.kind[rows], timeline.graph.ops.rank[rows]
    ready, starts, ends = (
        each[rows] for each in (timeline.ready_ns, timeline.start_ns, timeline.end_ns)
    )
    moves = np.isin(kind, [int(k) for k in _TRANSFERS])
    parts = [
        (np.flatnonzero(kind == OpKind.COMPUTE), _COMPUTE, starts, ends),
        (np.flatnonzero(moves), _TRANSFER, starts, ends),
        (np.flatnonzero(moves & (starts > ready)), _WAITING, ready, starts),
        (np.flatnonzero(kind == OpKind.DATA), _DATA, starts, ends),
    ]
    rank = np.concatenate([ranks[ids] for ids, *_ in parts]).astype(np.int64)
    state = np.concatenate([np.full(len(ids), state) for ids, state, *_ in parts])
    begin = np.concatenate([begin[ids] for ids, _, begin, _ in parts])
    end = np.concatenate([end[ids] for ids, *_, end in parts])
    return rank, state, begin, end
