"""Each bucket's parameters are updated as soon as its all-reduce is done, beside the backward pass
that goes on. CoCoNet's overlap of update and exchange (Jangda et al., ASPLOS 2022); "Optimizer
Fusion: Efficient Training with Better Locality and Parallelism" (Jiang et al., 2021).

The update hides behind backward and behind the exchange of later buckets; only the last bucket's
stays behind them. Optimizers that update one parameter at a time learn the same. The first step is
made as ever: a script that changes gradients or settings between backward and the optimizer's step,
as clipping by the norm of all gradients does, or leaves parameters without any, is refused then,
before anything differs. Add `buckets`, so that there are several.

Wrong where a step on each bucket's parameters takes longer than its share of the whole step by the
optimizer's own calls, where Python of the update waits for that of the backward pass, and on a
device whose host bounds the step.
"""

from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import ClassVar

from paceline.graph import Graph
from paceline.graph.early_update import updated_early
from paceline.runtime.run import Run
from paceline.strategies.coded import CODECS
from paceline.strategies.seldom import SELDOM
from paceline.strategies.strategy import Strategy


@dataclass(frozen=True)
class EarlyUpdate(Strategy):
    conflicts: ClassVar[frozenset[str]] = SELDOM | {
        "accumulate",
        "early_update",
        "fused_step",
        "hierarchical",
        "overlap_update",
        "parameter_server",
        "zero1",
    }
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
        return updated_early(graph)

    def apply(self, run: Run) -> AbstractContextManager[None]:
        return run.exchange.with_early_updates()
