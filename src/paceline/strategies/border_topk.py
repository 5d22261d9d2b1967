"""Between pipeline stages only the largest activations of each sample pass, and the gradients of
the same ones come back. Gupta et al., "Training Recommender Systems at Scale" (DCT, 2021).

Activations go with their places, those above a cached threshold; gradients need none, for both
sides know the index set. Applied to stages of torch.distributed.pipelining; those of
paceline.runtime.stages are given `PipelineJob(..., borders=(Border(ratio), ...))`. Activations that
tensor-parallel ranks add up cannot be thinned: which of them are large is known behind the sum.

`width` is how many values a sample has: without it a message is taken for one sample, and the bytes
are wrong by less than a value for each. What either side takes to pack and unpack, `paceline
measure` measures. Wrong in the threshold's refresh, and by some 5 ms a step of two stages, seen in
the lab and not yet explained.

A classifier of Fashion-MNIST in two stages lost 1.0 points with a tenth of its activations, and 0.4
with a fifth.
"""

from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import ClassVar

from paceline.graph import Graph
from paceline.graph.thinning import Thinning, thinned
from paceline.runtime.codecs import kept
from paceline.runtime.run import Run
from paceline.strategies.strategy import Effect, Strategy, StrategyError

_HEAD_BYTES = 64  # a message of activations says what it was packed from
_PLACE_BYTES = 4


@dataclass(frozen=True)
class BorderTopK(Strategy):
    effect: ClassVar[Effect] = Effect.LOSSY
    conflicts: ClassVar[frozenset[str]] = frozenset({"border_topk"})
    applies: ClassVar[bool] = True

    ratio: float = 0.2  # of each sample's activations
    width: int = 0  # values of a sample; 0: not known

    def __post_init__(self) -> None:
        if not 0 < self.ratio <= 1 or self.width < 0:
            raise StrategyError(f"{self}: give a ratio above 0, to 1, and a width of 0 or more")

    def transform(self, graph: Graph) -> Graph:
        return thinned(graph, Thinning("border_topk", self.down_bytes, self.up_bytes))

    def apply(self, run: Run) -> AbstractContextManager[None]:
        return run.exchange.with_border(self.ratio)

    def down_bytes(self, size_bytes: int) -> int:
        """Of activations that would take so many as float32."""
        return _HEAD_BYTES + (4 + _PLACE_BYTES) * self._passing(size_bytes // 4)

    def up_bytes(self, size_bytes: int) -> int:
        """Of their gradients."""
        return 4 * self._passing(size_bytes // 4)

    def _passing(self, count: int) -> int:
        width = self.width or count
        if not count or count % width:
            raise StrategyError(f"a message of {count} values holds no samples of {width}")
        return count // width * kept(width, self.ratio)
