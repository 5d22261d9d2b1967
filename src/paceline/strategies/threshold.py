"""Gradients above a threshold travel, with error feedback; the threshold is refreshed every few
steps. Gupta et al., "Training Recommender Systems at Scale: Communication-Efficient Model and
Data Parallelism" (DCT, 2021).

As many as top-k sends, for a fraction of its work between refreshes. Wrong by the refresh, whose
time a step of the prediction does not have.
"""

from dataclasses import dataclass
from typing import ClassVar

from paceline.graph import DType
from paceline.runtime.codecs import Codec, kept
from paceline.strategies.coded import Coded
from paceline.strategies.strategy import StrategyError


@dataclass(frozen=True)
class Threshold(Coded):
    wire: ClassVar[DType] = DType.INT32

    ratio: float = 0.01  # of all gradients
    every: int = 100  # steps between refreshes

    def __post_init__(self) -> None:
        if not 0 < self.ratio <= 1:
            raise StrategyError(f"a ratio of {self.ratio:g} was asked for; give above 0, to 1")
        if self.every < 1:
            raise StrategyError(f"a refresh every {self.every} steps was asked for; give 1 or more")

    def payload_bytes(self, count: int) -> int:
        return 8 * kept(count, self.ratio)

    def codec(self) -> Codec:
        from paceline.runtime.codecs.torch_threshold import threshold

        return threshold(self.ratio, self.every)
