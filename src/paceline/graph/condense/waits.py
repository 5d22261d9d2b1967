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
from paceline.graph.graph import Bool, Graph, Int64
from paceline.graph.kinds import NONE, DepKind, LaneKind
from paceline.graph.links import Links

Place = tuple[int, int]  # lane and stretch


@dataclass(frozen=True, eq=False)
class Step:
    """The typical step, and what links it to the step before."""

    graph: Graph
    before: Links  # `src` is an op of the step before

    def merged(self, grain: Grain) -> "Step":
        ends = np.concatenate([self.before.op, self.before.src])
        graph, place = coarser(self.graph, grain, keep=np.unique(ends))
        return Step(graph, self.before.moved(place))


def with_waits(typical: Typical, graph: Graph, cuts: Cuts, shapes: Shapes) -> Step:
    """The typical step with every wait in it."""
    links = Links.of(graph)
    place = np.full(len(graph), NONE, np.int64)
    place[typical.row] = np.arange(len(typical.row))
    step, found = typical.graph, Links.of(typical.graph)
    added = _unseen(graph, links, cuts, shapes, place)
    begun = _begun_before(graph, links, shapes, place)
    deps = found.joined(added).joined(begun).columns(len(step))
    return Step(replace(step, deps=deps), _from_before(graph, links, shapes, place))


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
    reduces = _reduces(graph, links)
    rows: list[tuple[int, int]] = []
    for op in np.flatnonzero((place != NONE) & (cuts.turn != NONE)).tolist():
        if op in seen and place[seen[op]] != NONE:
            continue
        known = places.get((int(ops.rank[op]), int(cuts.turn[op])))
        most = known.most_common(1)[0][0] if known else None
        waiter = _waiter(graph, cuts, place, op, most, last=bool(reduces[op]))
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


def _waiter(
    graph: Graph, cuts: Cuts, place: Int64, op: int, at: Place | None, *, last: bool
) -> int:
    """The op that begins to wait: the first of the stretch where others do; of a gradient's
    without any, the first behind the last cut."""
    ops = graph.ops
    mine = (place != NONE) & (ops.rank == ops.rank[op]) & (cuts.stretch != NONE)
    if at is not None:
        mine &= (ops.lane == at[0]) & (cuts.stretch == at[1])
    elif last:
        lane = _busiest(graph, mine)
        mine &= (ops.lane == lane) & (cuts.stretch == cuts.stretch[mine & (ops.lane == lane)].max())
    else:
        return NONE
    rows = np.flatnonzero(mine)
    return int(rows[0]) if len(rows) else NONE


def _busiest(graph: Graph, mine: Bool) -> int:
    return int(np.bincount(graph.ops.lane[mine]).argmax())


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
    spots = {(int(ops.lane[o]), int(ahead[o])): int(o) for o in np.flatnonzero(place != NONE)}
    src = [spots.get((int(ops.lane[s]), int(behind[s])), NONE) for s in into.src.tolist()]
    there = np.array(src, np.int64) != NONE
    into = Links(into.op, np.array(src, np.int64), into.kind, into.inferred).where(there)
    return into.moved(place)


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
