"""Gradients pushed to parameter servers on the workers' own hosts, and weights pulled, in place of
an all-reduce. Li et al., "Scaling Distributed Machine Learning with the Parameter Server" (2014).

Wrong where servers are too slow to add up what they receive as it comes.
"""

from dataclasses import dataclass
from typing import ClassVar

from paceline.graph import Graph
from paceline.graph.servers import with_servers
from paceline.strategies.strategy import Strategy


@dataclass(frozen=True)
class ParameterServer(Strategy):
    conflicts: ClassVar[frozenset[str]] = frozenset({"parameter_server"})
    how: ClassVar[str] = "Gloo and NCCL have no servers; the prediction is for frameworks that do."

    def transform(self, graph: Graph) -> Graph:
        return with_servers(graph)
