"""Gradients exchanged, and weights updated, every few steps of the script; in between they add up.
Li et al., "PyTorch Distributed" (VLDB 2020), `no_sync`.

A step then holds `steps` forward and backward passes and one exchange of their mean gradient, so it
has as many times the samples: compare it by the time for a recorded batch. It is taken at the
learning rate times `steps` to the power of `rate_power`: 1 suits SGD (Goyal et al., "Accurate,
Large Minibatch SGD", 2017), 0.5 suits Adam (Malladi et al., NeurIPS 2022), 0 keeps the rate.
Schedules of the rate go on with every step of the script, and a script that clips gradients clips
what has added up on its rank in each of them. A model that two optimizers train is refused in the
run. Stands before other changes of the exchange.

Wrong where a pass that adds to gradients takes longer than one that makes them.
"""

from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import ClassVar

from paceline.graph import Graph
from paceline.graph.accumulate import accumulated
from paceline.runtime.exchange import Passes
from paceline.runtime.run import Run
from paceline.strategies.strategy import Effect, Strategy, StrategyError


@dataclass(frozen=True)
class Accumulate(Strategy):
    effect: ClassVar[Effect] = Effect.RELAXED
    resizes: ClassVar[bool] = True
    conflicts: ClassVar[frozenset[str]] = frozenset({"accumulate", "overlap_update"})
    follows: ClassVar[frozenset[str]] = frozenset({"late_gradients"})
    applies: ClassVar[bool] = True

    steps: int  # of the script, to one exchange
    rate_power: float = 1.0

    def __post_init__(self) -> None:
        if self.steps < 1:
            raise StrategyError(f"{self.steps} steps to an exchange were asked for; give 1 or more")
        if not 0 <= self.rate_power <= 1:
            raise StrategyError(f"a rate_power of {self.rate_power:g} was asked for; give 0 to 1")

    def transform(self, graph: Graph) -> Graph:
        return accumulated(graph, self.steps)

    @classmethod
    def choices(cls, graph: Graph) -> Iterator[Strategy]:
        return (cls(steps) for steps in (2, 4, 8))

    def apply(self, run: Run) -> AbstractContextManager[None]:
        return run.exchange.with_passes(Passes(self.steps, self.steps**self.rate_power))
