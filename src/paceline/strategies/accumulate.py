"""Gradients exchanged, and weights updated, every few steps of the script; in between they add up.
Li et al., "PyTorch Distributed" (VLDB 2020), `no_sync`.

A step then holds `steps` forward and backward passes and one exchange of their mean gradient, so it
has as many times the samples: compare it by the time for a recorded batch. Schedules of the
learning rate go on with every step of the script. Stands before other changes of the exchange.

Wrong where a pass that adds to gradients takes longer than one that makes them.
"""

from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import ClassVar

from paceline.graph import Graph
from paceline.graph.accumulate import accumulated
from paceline.runtime.run import Run
from paceline.strategies.strategy import Effect, Strategy, StrategyError


@dataclass(frozen=True)
class Accumulate(Strategy):
    effect: ClassVar[Effect] = Effect.RELAXED
    resizes: ClassVar[bool] = True
    conflicts: ClassVar[frozenset[str]] = frozenset({"accumulate", "overlap_update"})
    applies: ClassVar[bool] = True

    steps: int  # of the script, to one exchange

    def __post_init__(self) -> None:
        if self.steps < 1:
            raise StrategyError(f"{self.steps} steps to an exchange were asked for; give 1 or more")

    def transform(self, graph: Graph) -> Graph:
        return accumulated(graph, self.steps)

    @classmethod
    def choices(cls, graph: Graph) -> Iterator[Strategy]:
        return (cls(steps) for steps in (2, 4, 8))

    def apply(self, run: Run) -> AbstractContextManager[None]:
        return run.exchange.with_passes(self.steps)
