"""`Seldom`: what strategies share under which ranks train alone and exchange weights in rounds."""

from abc import abstractmethod
from contextlib import AbstractContextManager
from typing import ClassVar

from paceline.graph import Graph
from paceline.graph.rounds import Rounds, with_rounds
from paceline.runtime.rounds import Merge, WeightRounds
from paceline.runtime.run import Run
from paceline.strategies.coded import CODECS
from paceline.strategies.strategy import Effect, Strategy, StrategyError

SELDOM = frozenset({"diloco", "local_sgd", "overlap_local_sgd"})

EXCHANGES = frozenset({"accumulate", "fused_step", "hierarchical", "overlap_update",
                       "parameter_server", "partition", "priority", "zero1"})  # fmt: skip
"""What changes how gradients travel, or who updates what."""


class Seldom(Strategy):
    """Gradients do not travel, so nothing that changes how they do can stand beside it."""

    effect: ClassVar[Effect] = Effect.RELAXED
    conflicts: ClassVar[frozenset[str]] = CODECS | SELDOM | EXCHANGES
    follows: ClassVar[frozenset[str]] = frozenset({"buckets", "remodelling"})
    applies: ClassVar[bool] = True

    period: int

    @abstractmethod
    def rounds(self) -> Rounds:
        """When what travels, and how often packing and taking in pass over it."""

    @abstractmethod
    def merge(self) -> Merge:
        """The same for a live job; needs torch."""

    def transform(self, graph: Graph) -> Graph:
        self._require_others(graph.world_size)
        if graph.facts.update_shards > 1:
            raise StrategyError(
                f"each rank of this job updates one of {graph.facts.update_shards} parts of the "
                "weights, and ranks that train alone must update all; take DDP with a plain "
                "optimizer"
            )
        return with_rounds(graph, self.rounds())

    def apply(self, run: Run) -> AbstractContextManager[None]:
        self._require_others(run.world_size)
        return run.exchange.with_rounds(WeightRounds(self.rounds(), self.merge))

    def _require_others(self, workers: int) -> None:
        self.require(workers > 1, "this job has one worker, which has nobody to exchange with")

    def require(self, holds: bool, rule: str) -> None:
        if not holds:
            raise StrategyError(f"{self} was asked for; {rule}")
