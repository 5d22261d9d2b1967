"""`Handed`: in which order a rank hands its communication over, and when it first waits for it."""

from dataclasses import dataclass

import numpy as np

from paceline.graph import DepKind, Graph
from paceline.graph.graph import Bool, Int64
from paceline.graph.links import Links


@dataclass(frozen=True, eq=False)
class Handed:
    """By op: the op that launches it (itself where none does), and the first that waits for it."""

    graph: Graph
    by: Int64
    awaited: Int64  # beyond the last op where nothing waits

    @staticmethod
    def of(graph: Graph) -> "Handed":
        links = Links.of(graph)
        by = np.arange(len(graph))
        launches = links.kind == DepKind.LAUNCH
        by[links.op[launches]] = links.src[launches]
        awaited = np.full(len(graph), len(graph), np.int64)
        waits = links.kind == DepKind.WAIT
        np.minimum.at(awaited, links.src[waits], links.op[waits])
        return Handed(graph, by, awaited)

    def in_a_row(self, rows: Int64) -> tuple[Int64, Int64]:
        """Of these ops, each with the one that its rank hands over next."""
        order = rows[np.lexsort((rows, self.by[rows], self.graph.ops.rank[rows]))]
        return order[:-1], order[1:]

    def unawaited(self, first: Int64, then: Int64) -> Bool:
        """Whether one rank hands both over, in one group, before it waits for the first."""
        ops = self.graph.ops
        same = (ops.rank[first] == ops.rank[then]) & (ops.group[first] == ops.group[then])
        found: Bool = same & (self.by[then] < self.awaited[first])
        return found
