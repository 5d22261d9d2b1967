"""A parameter may arrive as late as its next use: each bucket is waited for, and its parameters are
updated, before the forward pass of the first layer that needs them. Hashemi et al., "Caramel"
(2020); the crossing of steps is ByteScheduler's (Peng et al., SOSP 2019).

The exchange hides behind the next forward pass too, where DDP waits for all of it at the end of
backward. Optimizers that update one parameter at a time learn the same; clipping by the norm of all
gradients is refused in the run, for it reads them before they are there, and so is a second
optimizer of the same model. Weights read outside modules and `state_dict` may be one update behind,
and gradients read by the script are the rank's own. Add `buckets` of a layer's size, `partition`
and `priority`.

Wrong where a step on each bucket's parameters takes longer than its share of the whole step by the
optimizer's own calls, and where a layer's name in the recording is not that of its parameters.
"""

from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import ClassVar

from paceline.graph import Graph
from paceline.graph.condense import Grain
from paceline.graph.late_update import updated_late
from paceline.runtime.run import Run
from paceline.strategies.coded import CODECS
from paceline.strategies.strategy import Strategy


@dataclass(frozen=True)
class OverlapUpdate(Strategy):
    grain: ClassVar[Grain] = Grain.LAYER
    conflicts: ClassVar[frozenset[str]] = frozenset({"overlap_update", "parameter_server"})
    follows: ClassVar[frozenset[str]] = CODECS | {
        "batch",
        "buckets",
        "late_gradients",
        "partition",
        "priority",
        "workers",
    }
    applies: ClassVar[bool] = True
    at_once: ClassVar[bool] = True

    def transform(self, graph: Graph) -> Graph:
        return updated_late(graph)

    def apply(self, run: Run) -> AbstractContextManager[None]:
        return run.exchange.with_late_updates()
