"""The distinct communication calls of a graph: same group, collective and bytes, same price."""

from dataclasses import dataclass
from typing import Final

import numpy as np

from paceline.cluster import Cluster
from paceline.cost.collectives import Call, Library
from paceline.cost.followed import followed
from paceline.cost.opposite import opposite
from paceline.graph import Collective, Graph, OpKind
from paceline.graph.graph import Int64
from paceline.graph.kinds import NONE
from paceline.graph.membership import TALKS, of_kinds

_MESSAGES: Final = of_kinds((OpKind.SEND, OpKind.RECV, OpKind.TRANSFER))


@dataclass(frozen=True, eq=False)
class Calls:
    """Rows of `Graph.ops` that communicate in a group, and the call that each is one of."""

    rows: Int64
    which: Int64  # of each row: index into the tuples below
    groups: tuple[int, ...]
    each: tuple[Call, ...]


def calls_of(graph: Graph, cluster: Cluster, library: Library) -> Calls:
    """Point-to-point ops without a collective's name count as such. A message comes after a rest of
    its links, what both ends ask for at once does not. Messages that follow one another on one
    connection each count with the bytes of both; of a broadcast with another behind it only the
    root's sends count, where the library carries both at once."""
    ops = graph.ops
    rows = np.flatnonzero(TALKS[ops.kind] & (ops.group != NONE))
    how = ops.collective[rows].astype(np.int64)
    how[_MESSAGES[ops.kind[rows]] & (how == Collective.NONE)] = Collective.POINT_TO_POINT
    size, both = ops.size_bytes[rows], np.zeros(len(rows), np.bool_)
    if library.one_way:
        other = opposite(graph)[rows]
        both = other != NONE
        size = size + np.where(both, ops.size_bytes[other], 0)
    hides = followed(graph)[rows] if library.threads > 1 else np.zeros(len(rows), np.bool_)
    sizes, which_size = np.unique(size, return_inverse=True)
    alone = _MESSAGES[ops.kind[rows]] & (how == Collective.POINT_TO_POINT)
    kinds = ((ops.group[rows] * len(Collective) + how) * len(sizes) + which_size) * 8
    kinds += 4 * alone + 2 * hides + both
    _, first, which = np.unique(kinds, return_index=True, return_inverse=True)
    groups = tuple(ops.group[rows[first]].tolist())
    hosts = [tuple(cluster.place_of(rank)[0] for rank in graph.groups[g].ranks) for g in groups]
    rests = np.where(alone[first], 1 + both[first], 0).tolist()
    kinds_of, whole = map(Collective, how[first].tolist()), size[first].tolist()
    each = tuple(
        Call(kind, size, host, after_rest=rest, followed=hidden)
        for kind, size, host, rest, hidden in zip(
            kinds_of, whole, hosts, rests, hides[first].tolist()
        )
    )
    return Calls(rows, which, groups, each)
