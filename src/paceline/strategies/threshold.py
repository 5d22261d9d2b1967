"""Gradients above a threshold travel, with error feedback; the threshold is refreshed every few
steps. Gupta et al., "Training Recommender Systems at Scale: Communication-Efficient Model and
Data Parallelism" (DCT, 2021).

As many as top-k sends, for two thirds of its work between refreshes. Wrong by the refresh, whose
time a step of the prediction does not have, and in the first twenty steps, in which what waits
still grows and many more than are to travel are above the threshold.
"""

from dataclasses import dataclass

from paceline.runtime.codecs import Sparse as Compressor
from paceline.strategies.sparse import Sparse
from paceline.strategies.strategy import StrategyError


@dataclass(frozen=True)
class Threshold(Sparse):
    every: int = 100  # steps between refreshes

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.every < 1:
            raise StrategyError(f"a refresh every {self.every} steps was asked for; give 1 or more")

    def compressor(self) -> Compressor:
        from paceline.runtime.codecs.torch_threshold import Threshold

        return Threshold(self.ratio, self.every)
