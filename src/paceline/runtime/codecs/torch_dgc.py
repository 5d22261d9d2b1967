"""About the largest gradients: those above a bound that a sample of them gives.

Lin et al., "Deep Gradient Compression" (2018). Where more are above than are to travel, the largest
of them do (the paper's hierarchical selection). In the warm-up the share falls exponentially from a
quarter to the final one.
"""

from random import Random

import torch

from paceline.runtime.codecs.codec import Turn, kept
from paceline.runtime.codecs.torch_largest import Searches
from paceline.runtime.codecs.torch_sparse import Placed, payload_of

FIRST_RATIO = 0.25
LEAST_SAMPLE = 4096
"""Of fewer values all are looked at: the sample's own error would be as large as its saving."""


class SampledTopK(Placed):
    """A share of all, which shrinks over the first `warmup` turns."""

    def __init__(self, ratio: float, sample: float, warmup: int) -> None:
        super().__init__(ratio)
        self.sample, self.warmup = sample, warmup
        self._found = Searches()

    def ratio_at(self, turn: Turn) -> float:
        left: float = 1 - turn.step / self.warmup if turn.step < self.warmup else 0.0
        return float(self.ratio * max(1.0, FIRST_RATIO / self.ratio) ** left)

    def compress(self, values: torch.Tensor, turn: Turn) -> torch.Tensor:
        many = self.many(values.numel(), turn)
        stride = values.numel() // max(LEAST_SAMPLE, round(self.sample * values.numel()))
        if stride < 2:
            return payload_of(values, values.abs().topk(many, sorted=False).indices, many)
        places = self._found.above(values, self._bound(values, stride, turn))
        if len(places) > many:
            places = places[values[places].abs().topk(many, sorted=False).indices]
        return payload_of(values, places, many)

    def _bound(self, values: torch.Tensor, stride: int, turn: Turn) -> float:
        first = Random(f"{turn.bucket} {turn.part} {turn.step}").randrange(stride)
        sample = values[first::stride].abs()
        return float(sample.topk(kept(len(sample), self.ratio_at(turn)), sorted=False).values.min())
