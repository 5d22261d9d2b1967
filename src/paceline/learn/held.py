"""`held`: rounds replayed on workers with CPU quotas.

What a quota makes of a rank's work follows from when the work begins, and that from what quotas
made of all work before. So the replay is repeated, each time with the waits for a core that follow
from the last one, until it stays: nothing acts on what was before it, so each repetition settles
one more wait at least.

Work that shares its cores with other ranks' takes what the cores or what its quota make of it,
whichever is longer: wrong where the cores are short although quotas hold others back meanwhile.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from paceline.graph import Graph, OpKind
from paceline.graph.graph import Int64
from paceline.replay import Timeline
from paceline.replay.quota import Budget, Quota

Replayed = Callable[[Int64], Timeline]
"""A replay that has yet to be told how long each op takes."""


@dataclass(frozen=True, eq=False)
class _Rank:
    """Work of one rank with a quota, and the waits for a core behind it; ops by number."""

    quota: Quota
    border_ns: int
    works: Int64
    waits: Int64


def held(
    replayed: Replayed, graph: Graph, dur_ns: Int64, quotas: Mapping[int, Quota], turn: float = 0.0
) -> Timeline:
    """Quotas by rank; the others wait for nothing. Ranks' periods begin apart, at each `turn` from
    0 to 1 in another way."""
    ranks = [_rank_of(graph, rank, quota, turn) for rank, quota in quotas.items()]
    for _ in range(1 + sum(len(rank.waits) for rank in ranks)):
        timeline = replayed(dur_ns)
        then_ns = dur_ns.copy()
        for rank in ranks:
            then_ns[rank.waits] = _waits_ns(rank, timeline, dur_ns)
        if np.array_equal(then_ns, dur_ns):
            break
        dur_ns = then_ns
    return timeline


def _rank_of(graph: Graph, rank: int, quota: Quota, turn: float) -> _Rank:
    """A wait stands behind its work on the same lane."""
    waits = np.flatnonzero((graph.ops.kind == OpKind.CORE_WAIT) & (graph.ops.rank == rank))
    mine = np.flatnonzero(graph.ops.rank == rank)
    lanes = graph.ops.lane[mine]
    works = [int(mine[(lanes == graph.ops.lane[wait]) & (mine < wait)][-1]) for wait in waits]
    border_ns = round((turn + rank * _APART) % 1 * quota.period_ns)
    return _Rank(quota, border_ns, np.array(works, np.int64), waits)


def _waits_ns(rank: _Rank, timeline: Timeline, dur_ns: Int64) -> Int64:
    """Behind each work: from where the replay ends it to where its quota does. What work waited for
    cores that others had meanwhile, its quota has not to wait for again."""
    budget = Budget(rank.quota, rank.border_ns)
    starts, took = timeline.start_ns[rank.works].tolist(), dur_ns[rank.works].tolist()
    ends = [budget.worked(start, work) for start, work in zip(starts, took)]
    found: Int64 = np.maximum(0, np.array(ends, np.int64) - timeline.end_ns[rank.works])
    return found


_APART = (5**0.5 - 1) / 2
"""Multiples of it lie evenly in a period, however many ranks there are."""
