"""The distinct communication calls of a graph: same group, collective and bytes, same price."""

from dataclasses import dataclass

import numpy as np

from paceline.cluster import Cluster
from paceline.cost.collectives import Call, Library
from paceline.cost.opposite import opposite
from paceline.graph import COMMUNICATION, Collective, Graph, OpKind
from paceline.graph.graph import Int64
from paceline.graph.kinds import NONE


@dataclass(frozen=True, eq=False)
class Calls:
    """Rows of `Graph.ops` that communicate in a group, and the call that each is one of."""

    rows: Int64
    which: Int64  # of each row: index into the columns below
    group: Int64
    collective: Int64
    size_bytes: Int64

    def call(self, graph: Graph, cluster: Cluster, index: int) -> Call:
        ranks = graph.groups[int(self.group[index])].ranks
        hosts = tuple(cluster.place_of(rank)[0] for rank in ranks)
        return Call(Collective(self.collective[index]), int(self.size_bytes[index]), hosts)


def calls_of(graph: Graph, library: Library) -> Calls:
    """Point-to-point ops without a collective's name count as such. Messages that follow one
    another on one connection each count with the bytes of both."""
    ops = graph.ops
    talks = np.isin(np.arange(len(OpKind)), COMMUNICATION)[ops.kind]
    rows = np.flatnonzero(talks & (ops.group != NONE))
    how = ops.collective[rows].astype(np.int64)
    messages = np.isin(ops.kind[rows], (OpKind.SEND, OpKind.RECV, OpKind.TRANSFER))
    how[messages & (how == Collective.NONE)] = Collective.POINT_TO_POINT
    size = ops.size_bytes[rows]
    if library.one_way:
        other = opposite(graph)[rows]
        size = size + np.where(other == NONE, 0, ops.size_bytes[other])
    keys = np.stack([ops.group[rows], how, size], axis=1).astype(np.int64)
    found, which = np.unique(keys, axis=0, return_inverse=True)
    return Calls(rows, which.ravel(), found[:, 0], found[:, 1], found[:, 2])
