"""Gradients pushed to parameter servers on the workers' own hosts, and weights pulled, in place of
an all-reduce. Li et al., "Scaling Distributed Machine Learning with the Parameter Server" (2014).

Every worker serves an equal share of each bucket. Applied on gloo, what is pulled is the mean
gradient, as long as the weights, and every worker makes the update itself.

Wrong where servers are too slow to add up what they receive as it comes.
"""

from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import ClassVar

from paceline.graph import Graph
from paceline.graph.servers import with_servers
from paceline.runtime.run import Run
from paceline.strategies.strategy import Strategy


@dataclass(frozen=True)
class ParameterServer(Strategy):
    conflicts: ClassVar[frozenset[str]] = frozenset({"parameter_server"})
    follows: ClassVar[frozenset[str]] = frozenset({"accumulate", "remodelling"})
    applies: ClassVar[bool] = True

    def transform(self, graph: Graph) -> Graph:
        return with_servers(graph)

    def apply(self, run: Run) -> AbstractContextManager[None]:
        return run.exchange.with_servers()
