"""Each worker that prepares batches is so many of them ahead of the step that trains.
PyTorch's `prefetch_factor`, tf.data's `prefetch` (Murray et al., VLDB 2021).

A worker begins a batch when the thread has taken the one that stands workers x `batches` before it.
More of them ahead bridge batches that take long, and hold more memory; a job without workers gets
one. Exact where a dataset draws no random numbers. Wrong where batches differ more in the run than
in the recorded steps: a typical step, repeated, has none that take long (`paceline io` keeps all).
"""

from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, ClassVar

from paceline.graph import Graph
from paceline.graph.loaders import loaded_beside
from paceline.graph.prefetching import prefetched
from paceline.runtime.run import Run
from paceline.strategies.strategy import Strategy, StrategyError


@dataclass(frozen=True)
class Prefetch(Strategy):
    conflicts: ClassVar[frozenset[str]] = frozenset({"prefetch"})
    follows: ClassVar[frozenset[str]] = frozenset({"cache", "format", "data_workers"})
    applies: ClassVar[bool] = True
    in_turns: ClassVar[bool] = False

    batches: int = 4

    def __post_init__(self) -> None:
        if self.batches < 1:
            raise StrategyError(f"{self.batches} batches ahead were asked for; give 1 or more")

    def transform(self, graph: Graph) -> Graph:
        beside = graph if graph.facts.loading.workers else loaded_beside(graph, 1)
        return prefetched(beside, self.batches)

    @classmethod
    def choices(cls, graph: Graph) -> Iterator[Strategy]:
        return (cls(batches) for batches in (1, 4))

    def apply(self, run: Run) -> AbstractContextManager[None]:
        from paceline.runtime.torch_loaders import loaders_with

        return loaders_with(self._settings)

    def _settings(self, loader: Any) -> dict[str, Any]:
        return {"num_workers": max(1, loader.num_workers), "prefetch_factor": self.batches}
