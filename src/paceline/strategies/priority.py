"""Exchanges of gradients in the order of next use: those of front layers overtake. P3 (Jayarajan et
al., MLSys 2019); ByteScheduler (Peng et al., SOSP 2019).

Gradients of the last layers are ready first, and their weights are needed last. The first rank of a
group takes the ready exchange that is needed first, one at a time, and announces it to the others.
It brings something only where a forward pass waits for its own weights alone (`overlap_update`),
and where exchanges are short enough to be overtaken (`partition`). An announcement before each is
what it costs; gradients travel beside the group's other collectives, not in turn with them.

Wrong where weights are used in another order than the model defines them in, and where the library
moves two exchanges at once faster than one behind the other.
"""

from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import ClassVar

from paceline.graph import Graph
from paceline.graph.priority import prioritised
from paceline.runtime.run import Run
from paceline.strategies.coded import CODECS
from paceline.strategies.strategy import Strategy


@dataclass(frozen=True)
class Priority(Strategy):
    conflicts: ClassVar[frozenset[str]] = frozenset({"priority", "parameter_server"})
    follows: ClassVar[frozenset[str]] = (
        frozenset({"accumulate", "workers", "buckets", "late_gradients", "partition"}) | CODECS
    )
    applies: ClassVar[bool] = True
    at_once: ClassVar[bool] = True

    def transform(self, graph: Graph) -> Graph:
        return prioritised(graph)

    def apply(self, run: Run) -> AbstractContextManager[None]:
        return run.exchange.with_priority()
