"""Another number of data-parallel workers; tensor and pipeline axes stay as they are.

Wrong where workers differ in ways that the recorded ones do not show, and where the work of a
worker depends on how many there are (a batch that is split among them: add `batch`). Of an update
that is cut among workers the arithmetic is cut anew and the host's part stays, which is too long
or too short by that part where tensors are dealt out whole (ZeRO).
"""

from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import ClassVar

from paceline.graph import Axis, Graph
from paceline.graph.replicas import with_replicas
from paceline.runtime.run import Run
from paceline.strategies.strategy import Effect, Strategy


@dataclass(frozen=True)
class Workers(Strategy):
    effect: ClassVar[Effect] = Effect.RELAXED
    recruits: ClassVar[bool] = True
    conflicts: ClassVar[frozenset[str]] = frozenset({"workers"})
    how: ClassVar[str] = "Start the job with that many."

    count: int  # replicas of the model

    def transform(self, graph: Graph) -> Graph:
        return with_replicas(graph, self.count)

    @classmethod
    def choices(cls, graph: Graph) -> Iterator[Strategy]:
        """Twice to eight times as many as the replicas that share gradients."""
        replicas = [len(group.ranks) for group in graph.groups if group.axis is Axis.DATA]
        for factor in (2, 4, 8) if replicas else ():
            yield cls(factor * replicas[0])

    def apply(self, run: Run) -> AbstractContextManager[None]:
        return nullcontext() if run.world_size == self.count else super().apply(run)
