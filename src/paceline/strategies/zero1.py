"""The optimizer's state and update cut among replicas: each updates the parameters that it owns and
gathers the others. Rajbhandari et al., "ZeRO" (2020), stage 1.

Gradients are all-reduced as they are (gloo has no reduce-scatter of its own), so whatever reads all
of them still may. Each worker keeps the state of its own parameters; a checkpoint fetches the rest
from their owners, so it holds all and loads without this. Learns the very same numbers, for
optimizers that update one parameter at a time.

Wrong where an update does not take time in proportion to its parameters' bytes, and where copies of
weights run at another rate than the device's memory.
"""

from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import ClassVar

from paceline.graph import Graph
from paceline.graph.sharded_update import with_owners
from paceline.runtime.run import Run
from paceline.strategies.coded import CODECS
from paceline.strategies.strategy import Strategy


@dataclass(frozen=True)
class Zero1(Strategy):
    conflicts: ClassVar[frozenset[str]] = frozenset(
        {"hierarchical", "overlap_update", "parameter_server", "zero1"}
    )
    follows: ClassVar[frozenset[str]] = CODECS | {
        "accumulate",
        "batch",
        "buckets",
        "late_gradients",
        "partition",
        "priority",
        "remodelling",
        "workers",
    }
    applies: ClassVar[bool] = True

    def transform(self, graph: Graph) -> Graph:
        return with_owners(graph)

    def apply(self, run: Run) -> AbstractContextManager[None]:
        return run.exchange.with_owners()
