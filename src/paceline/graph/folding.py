"""Ranks with the same program and costs, told once: `FoldedGraph`."""

from dataclasses import dataclass

from paceline.graph.graph import Graph, Int32


@dataclass(frozen=True, eq=False)
class FoldedGraph:
    """A graph of one rank for each class of like ranks.

    `graph` holds the representatives alone; where an op waits for an op of another rank, it waits
    for the one at the same place on that rank's representative, whose times are the same.
    """

    graph: Graph
    class_of_rank: Int32  # of every rank of the whole job
    representatives: tuple[int, ...]  # the rank that stands for each class

    @property
    def ranks(self) -> int:
        return len(self.class_of_rank)
