"""Who takes part in a round: how many are asked, and who drops out.

Drawn from the seed and the round alone, so that every worker draws the same.
"""

from dataclasses import dataclass

import numpy as np

from paceline.learn.errors import LearnError


@dataclass(frozen=True)
class Chances:
    """`per_round` clients are asked in each round (0: all), without replacement; each of them drops
    out with the chance `drops`: it neither trains nor sends."""

    per_round: int = 0
    drops: float = 0.0

    def __post_init__(self) -> None:
        if self.per_round < 0 or not 0 <= self.drops < 1:
            raise LearnError(f"{self}: per_round is 0 or more, drops a share below 1")

    def asked(self, clients: int, seed: int, round_: int) -> tuple[int, ...]:
        if self.per_round > clients:
            raise LearnError(
                f"{self.per_round} clients are asked in each round, and there are {clients}"
            )
        drawn = np.random.default_rng([seed, 3, round_])
        chosen = drawn.permutation(clients)[: self.per_round or clients]
        return tuple(sorted(chosen.tolist()))

    def here(self, asked: tuple[int, ...], seed: int, round_: int) -> tuple[int, ...]:
        """Who of those that are asked does not drop out."""
        drawn = np.random.default_rng([seed, 4, round_]).random(len(asked))
        return tuple(n for n, chance in zip(asked, drawn.tolist()) if chance >= self.drops)
