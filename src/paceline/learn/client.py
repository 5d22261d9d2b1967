"""`Client`: one participant with its own samples, weights, memory and random numbers."""

from copy import deepcopy
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from paceline.learn.samples import Rows, Vector


@dataclass(eq=False)
class Client:
    """Nothing of it depends on which worker carries it."""

    number: int
    rows: Rows
    drawn: np.random.Generator
    weights: Vector = field(default_factory=lambda: np.zeros(0, np.float32))
    keeps: dict[str, Vector] = field(default_factory=dict)  # what its algorithm remembers
    tools: dict[str, Any] = field(default_factory=dict)  # what remembers for its algorithm
    seen: int = 0  # samples that it was trained with, so far
    _order: Rows = field(default_factory=lambda: np.zeros(0, np.int64))

    @staticmethod
    def of(number: int, rows: Rows, seed: int) -> "Client":
        return Client(number, rows, np.random.default_rng([seed, 2, number]))

    def copied(self) -> "Client":
        """As it is now; its samples never change."""
        return replace(
            self,
            drawn=deepcopy(self.drawn),
            weights=self.weights.copy(),
            keeps={name: kept.copy() for name, kept in self.keeps.items()},
            tools=deepcopy(self.tools),
        )

    def batch(self, count: int) -> Rows:
        """The next samples in an order that is drawn anew each time all were seen. A client with
        fewer samples than a batch sees all of them."""
        count = min(count, len(self.rows))
        if len(self._order) < count:
            self._order = np.concatenate([self._order, self.drawn.permutation(self.rows)])
        batch, self._order = self._order[:count], self._order[count:]
        self.seen += count
        return batch
