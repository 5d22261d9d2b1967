"""Batches are prepared by worker processes ahead of time, beside the step that trains.
PyTorch's DataLoader with workers and pinned memory; of Daydream's data-loading tasks.

Loads move to lanes of their own, in turn, and a step waits for its batch only where loading is the
slower; workers share the host's cores with what trains. Takes effect with the next iterator that
the script makes, as at an epoch's begin. Exact where a dataset draws no random numbers, which
workers draw from seeds of their own. Wrong where handing a batch over takes long and the recording
does not tell (`paceline io` measures it), where several workers wait for one slow disk (the same),
and where the host has no cores to spare and nothing says so (`--cores`).
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

AHEAD = 2
"""Batches that each worker of a DataLoader prepares ahead where nothing else is said."""


@dataclass(frozen=True)
class DataWorkers(Strategy):
    conflicts: ClassVar[frozenset[str]] = frozenset({"data_workers"})
    follows: ClassVar[frozenset[str]] = frozenset({"cache", "format"})
    applies: ClassVar[bool] = True
    in_turns: ClassVar[bool] = False

    count: int = 2
    pinned: bool = False  # in memory from which a GPU copies by itself; else as the loader says

    def __post_init__(self) -> None:
        if self.count < 1:
            raise StrategyError(f"{self.count} data workers were asked for; give 1 or more")

    def transform(self, graph: Graph) -> Graph:
        return prefetched(loaded_beside(graph, self.count), AHEAD)

    @classmethod
    def choices(cls, graph: Graph) -> Iterator[Strategy]:
        return (cls(count) for count in (1, 2, 4))

    def apply(self, run: Run) -> AbstractContextManager[None]:
        from paceline.runtime.torch_loaders import loaders_with

        return loaders_with(self.settings)

    def settings(self, loader: Any) -> dict[str, Any]:
        """What a loader is made with beside its own settings."""
        return {
            "num_workers": self.count,
            "prefetch_factor": loader.prefetch_factor or AHEAD,
            "pin_memory": self.pinned or loader.pin_memory,
        }
