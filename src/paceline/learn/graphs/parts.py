"""`Parts`: each part's nodes, the nodes of others that border on them, and who sends which rows.

A part sees its own nodes first, then its halo: neighbours of its nodes that lie in other parts, by
part and node. What one part sends another is the same list at both ends.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from paceline.learn.graphs.attributed import Attributed
from paceline.learn.graphs.parting import Parting
from paceline.learn.samples import Rows


@dataclass(frozen=True, eq=False)
class GraphPart:
    """Edges run from a row of the part's own nodes to a row of own nodes and halo."""

    number: int
    nodes: Rows
    halo: Rows
    edges: Rows  # pairs
    sends: Mapping[int, Rows]  # by receiving part: rows of own nodes
    takes: Mapping[int, Rows]  # by sending part: rows of the halo


@dataclass(frozen=True, eq=False)
class Parts:
    """The whole graph, in parts."""

    graph: Attributed
    each: tuple[GraphPart, ...]
    notes: tuple[str, ...] = ()  # of the parting

    @property
    def halo_rows(self) -> int:
        return sum(len(part.halo) for part in self.each)


def parts_of(graph: Attributed, parting: Parting) -> Parts:
    nodes = [np.flatnonzero(parting.part == n) for n in range(parting.parts)]
    local = np.zeros(len(graph), np.int64)
    for mine in nodes:
        local[mine] = np.arange(len(mine))
    halos = [_halo(graph, parting, number, mine) for number, mine in enumerate(nodes)]
    each = []
    for number, (mine, halo) in enumerate(zip(nodes, halos)):
        owners = parting.part[halo]
        takes = {int(o): np.flatnonzero(owners == o) for o in np.unique(owners)}
        sends = {
            other: local[theirs[parting.part[theirs] == number]]
            for other, theirs in enumerate(halos)
            if other != number and (parting.part[theirs] == number).any()
        }
        each.append(GraphPart(number, mine, halo, _edges(graph, mine, halo), sends, takes))
    return Parts(graph, tuple(each), parting.notes)


def _halo(graph: Attributed, parting: Parting, number: int, mine: Rows) -> Rows:
    """Sorted by part, then by node."""
    if not len(mine):
        return np.zeros(0, np.int64)
    reached = np.unique(np.concatenate([graph.to[graph.ptr[n] : graph.ptr[n + 1]] for n in mine]))
    outside = reached[parting.part[reached] != number]
    found: Rows = outside[np.lexsort((outside, parting.part[outside]))]
    return found


def _edges(graph: Attributed, mine: Rows, halo: Rows) -> Rows:
    place = np.full(len(graph), -1, np.int64)
    place[mine] = np.arange(len(mine))
    place[halo] = len(mine) + np.arange(len(halo))
    source = np.repeat(np.arange(len(mine)), graph.degrees[mine])
    to = [graph.to[graph.ptr[n] : graph.ptr[n + 1]] for n in mine]
    target = place[np.concatenate(to)] if to else np.zeros(0, np.int64)
    return np.stack([source, target], axis=1)
