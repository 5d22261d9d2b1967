"""For which communication the typical step waits where, seen in the reference step or not.

A wait is seen only where the thread really waited. On a slower network it would: so each
communication is waited for where most steps show it, and a gradient's once all are ready, as DDP
does at the end of backward.
"""

from collections import Counter
from dataclasses import dataclass, replace

import numpy as np

from paceline.graph.condense.cuts import Cuts
from paceline.graph.condense.grain import Grain, coarser
from paceline.graph.condense.medians import Typical
from paceline.graph.condense.shapes import Shapes
from paceline.graph.graph import Bool, Graph, Int32, Int64
from paceline.graph.kinds import NONE, DepKind, LaneKind
from paceline.graph.links import Links

Place = tuple[int, int]  # lane and stretch


@dataclass(frozen=True, eq=False)
class LinkedStep:
    """The typical step, and what links it to the step before."""

    graph: Graph
    before: Links  # `src` is an op of the step before

    def merged(self, grain: Grain) -> "LinkedStep":
        ends = np.concatenate([self.before.op, self.before.src])
        graph, place = coarser(self.graph, grain, keep=ends)
        return LinkedStep(graph, self.before.moved(place))


def with_waits(typical: Typical, graph: Graph, cuts: Cuts, shapes: Shapes) -> LinkedStep:
    """The typical step with every wait in it."""
    links = Links.of(graph)
    place = np.full(len(graph), NONE, np.int64)
    place[typical.row] = np.arange(len(typical.row))
    step, found = typical.graph, Links.of(typical.graph)
    added = _unseen(graph, links, cuts, shapes, place)
    begun = _begun_before(graph, links, shapes, place)
    deps = found.joined(added).joined(begun).columns(len(step))
    return LinkedStep(replace(step, deps=deps), _from_before(graph, links, shapes, place))


def _unseen(graph: Graph, links: Links, cuts: Cuts, shapes: Shapes, place: Int64) -> Links:
    """Waits that the reference step does not show, in ids of the typical step."""
    ops = graph.ops
    seen = _first_waits(graph, links, cuts)
    places: dict[tuple[int, int], Counter[Place]] = {}
    for op, waiter in seen.items():
        if shapes.alike[op]:
            key = (int(ops.rank[op]), int(cuts.turn[op]))
            at = (int(ops.lane[waiter]), int(cuts.stretch[waiter]))
            places.setdefault(key, Counter())[at] += 1
    reduces, stretches = _reduces(graph, links), _Stretches.of(graph, cuts, place)
    rows: list[tuple[int, int]] = []
    for op in np.flatnonzero((place != NONE) & (cuts.turn != NONE)).tolist():
        if op in seen and place[seen[op]] != NONE:
            continue
        rank = int(ops.rank[op])
        known = places.get((rank, int(cuts.turn[op])))
        if known:
            waiter = stretches.first.get(known.most_common(1)[0][0], NONE)
        else:
            waiter = stretches.last.get(rank, NONE) if reduces[op] else NONE
        if waiter != NONE:
            rows.append((waiter, op))
    table = np.array(rows, np.int64).reshape(-1, 2)
    return Links.all_of(place[table[:, 0]], place[table[:, 1]], DepKind.WAIT)


def _first_waits(graph: Graph, links: Links, cuts: Cuts) -> dict[int, int]:
    """For each communication the first op of its rank's threads and streams that waits for it."""
    ops = graph.ops
    works = graph.lanes.kind[ops.lane] != LaneKind.COMM_THREAD
    waits = (cuts.turn[links.src] != NONE) & works[links.op] & (cuts.turn[links.op] == NONE)
    waits &= ops.rank[links.src] == ops.rank[links.op]
    found: dict[int, int] = {}
    for src, op in zip(links.src[waits].tolist(), links.op[waits].tolist()):
        found[src] = min(op, found.get(src, op))
    return found


def _reduces(graph: Graph, links: Links) -> Bool:
    """Which communication gradients wait for."""
    found = np.zeros(len(graph), np.bool_)
    found[links.op[links.kind == DepKind.GRADIENT]] = True
    return found


@dataclass(frozen=True, eq=False)
class _Stretches:
    """Where waiting may begin: the first op of each stretch of the reference step, and of each
    rank's last stretch, that behind the last cut of its busiest lane."""

    first: dict[Place, int]
    last: dict[int, int]

    @staticmethod
    def of(graph: Graph, cuts: Cuts, place: Int64) -> "_Stretches":
        rows = np.flatnonzero((place != NONE) & (cuts.stretch != NONE))
        lane, stretch = graph.ops.lane[rows].astype(np.int64), cuts.stretch[rows]
        _, at = np.unique(lane * (stretch.max(initial=0) + 1) + stretch, return_index=True)
        keys = zip(lane[at].tolist(), stretch[at].tolist())
        first = dict(zip(keys, rows[at].tolist()))
        ops = np.bincount(lane, minlength=len(graph.lanes))
        latest = np.full(len(graph.lanes), NONE, np.int64)
        np.maximum.at(latest, lane, stretch)
        last = {}
        for rank in graph.ranks:
            mine = np.flatnonzero((graph.lanes.rank == rank) & (ops > 0))
            if len(mine):
                busiest = int(mine[np.argmax(ops[mine])])
                last[rank] = first[busiest, int(latest[busiest])]
        return _Stretches(first, last)


def _begun_before(graph: Graph, links: Links, shapes: Shapes, place: Int64) -> Links:
    """Waits for this step's work that a thread began in the step before: what it does first in
    this step waits."""
    step, lane = graph.ops.step, graph.ops.lane
    begun = links.where(
        (step[links.op] == shapes.reference - 1) & (step[links.src] == shapes.reference)
    )
    rows = np.flatnonzero(place != NONE)[::-1]
    first = np.full(len(graph.lanes), NONE, np.int64)
    first[lane[rows]] = rows
    heir = first[lane[begun.op]]
    made = Links(heir, begun.src, begun.kind, begun.inferred)
    return made.where((heir != NONE) & (begun.src < heir)).moved(place)


def _from_before(graph: Graph, links: Links, shapes: Shapes, place: Int64) -> Links:
    """Links from the step before: its op at the same place of the same lane stands for it."""
    ops = graph.ops
    step = ops.step
    earlier = step[links.src] == shapes.reference - 1
    into = links.where(earlier & (step[links.op] == shapes.reference))
    if not len(into.op) or shapes.reference == NONE:
        return into.where(np.zeros(len(into.op), np.bool_))
    behind, length = _behind(graph, shapes.reference - 1)
    ahead, mine = _behind(graph, shapes.reference)
    lane = ops.lane[into.src]
    same = length[lane] == mine[lane]
    into = into.where(same)
    src = _at(graph, np.flatnonzero(place != NONE), ahead, ops.lane[into.src], behind[into.src])
    into = Links(into.op, src, into.kind, into.inferred).where(src != NONE)
    return into.moved(place)


def _at(graph: Graph, rows: Int64, spot: Int64, lane: Int32, wanted: Int64) -> Int64:
    """Which of the rows stand at the wanted spots of these lanes; NONE where none does."""
    width = int(max(spot[rows].max(initial=0), wanted.max(initial=0))) + 2
    have = graph.ops.lane[rows].astype(np.int64) * width + spot[rows]
    order = np.argsort(have, kind="stable")
    ask = lane.astype(np.int64) * width + wanted
    at = np.minimum(np.searchsorted(have, ask, sorter=order), max(0, len(rows) - 1))
    if not len(rows):
        return np.full(len(ask), NONE, np.int64)
    found = rows[order[at]]
    return np.where(have[order[at]] == ask, found, NONE)


def _behind(graph: Graph, step: int) -> tuple[Int64, Int64]:
    """Each op's place on its lane in a step, and how many ops each lane has there."""
    lane = graph.ops.lane
    rows = np.flatnonzero(graph.ops.step == step)
    order = rows[np.argsort(lane[rows], kind="stable")]
    length = np.bincount(lane[order], minlength=len(graph.lanes))
    first = np.cumsum(length) - length
    found = np.full(len(graph), NONE, np.int64)
    found[order] = np.arange(len(order)) - first[lane[order]]
    return found, length
