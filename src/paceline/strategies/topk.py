"""The largest gradients of each bucket travel, the others wait with error feedback. Lin et al.,
"Deep Gradient Compression" (2018), without its momentum; Stich et al. (2018).

Each takes eight bytes, value and place, and payloads are gathered. Wrong where a CPU looks for the
largest: that takes ten times what the memory's rate tells, and only a measured table knows it.
"""

from dataclasses import dataclass
from typing import ClassVar

from paceline.graph import DType
from paceline.runtime.codecs import Codec, kept
from paceline.strategies.coded import Coded
from paceline.strategies.strategy import StrategyError


@dataclass(frozen=True)
class TopK(Coded):
    wire: ClassVar[DType] = DType.INT32

    ratio: float = 0.01  # of all gradients

    def __post_init__(self) -> None:
        if not 0 < self.ratio <= 1:
            raise StrategyError(f"a ratio of {self.ratio:g} was asked for; give above 0, to 1")

    def payload_bytes(self, count: int) -> int:
        return 8 * kept(count, self.ratio)

    def codec(self) -> Codec:
        from paceline.runtime.codecs.torch_topk import topk

        return topk(self.ratio)
