"""Another number of data-parallel workers; tensor and pipeline axes stay as they are.

Wrong where workers differ in ways that the recorded ones do not show, and where the work of a
worker depends on how many there are (a batch that is split among them: add `batch`).
"""

from dataclasses import dataclass

from paceline.graph import Graph
from paceline.graph.replicas import with_replicas
from paceline.strategies.strategy import Strategy


@dataclass(frozen=True)
class Workers(Strategy):
    count: int  # replicas of the model

    def transform(self, graph: Graph) -> Graph:
        return with_replicas(graph, self.count)
