"""Batches are prepared by worker processes ahead of time, beside the step that trains.
PyTorch's DataLoader with workers, prefetching and pinned memory; of Daydream's data-loading tasks.

Loads move to lanes of their own, in turn, and a step waits for its batch only where loading is the
slower. Takes effect with the next iterator that the script makes, as at an epoch's begin. Exact
where a dataset draws no random numbers, which workers draw from seeds of their own. Wrong where
handing a batch over takes long, and where the host has no cores to spare and the cluster does not
say so (`--cores`).
"""

from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, ClassVar

from paceline.graph import Graph
from paceline.graph.loaders import loaded_beside
from paceline.runtime.run import Run
from paceline.strategies.strategy import Strategy, StrategyError


@dataclass(frozen=True)
class Loading(Strategy):
    conflicts: ClassVar[frozenset[str]] = frozenset({"loading"})
    applies: ClassVar[bool] = True
    in_turns: ClassVar[bool] = False

    workers: int = 2
    prefetch: int = 2  # batches that each worker prepares ahead
    pinned: bool = False  # in memory from which a GPU copies by itself

    def __post_init__(self) -> None:
        if self.workers < 1 or self.prefetch < 1:
            raise StrategyError(
                f"{self.workers} workers that prepare {self.prefetch} batches ahead were asked "
                "for; give 1 or more of both"
            )

    def transform(self, graph: Graph) -> Graph:
        return loaded_beside(graph, self.workers)

    @classmethod
    def choices(cls, graph: Graph) -> Iterator[Strategy]:
        return (cls(workers) for workers in (1, 2, 4))

    def apply(self, run: Run) -> AbstractContextManager[None]:
        from paceline.runtime.torch_loaders import loaders_with

        return loaders_with(self._settings)

    def _settings(self, loader: Any) -> dict[str, Any]:
        """What a loader is made with beside its own settings."""
        return {
            "num_workers": self.workers,
            "prefetch_factor": self.prefetch,
            "pin_memory": self.pinned,
        }
