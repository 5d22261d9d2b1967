"""The largest gradients of a bucket by magnitude, with their places."""

from collections.abc import Sequence

import torch

from paceline.runtime.codecs.codec import Turn
from paceline.runtime.codecs.torch_largest import Largest
from paceline.runtime.codecs.torch_sparse import Placed, payload_of


class TopK(Placed):
    """A share of all, at least one."""

    def __init__(self, ratio: float) -> None:
        super().__init__(ratio)
        self._largest = Largest()

    def compress(self, values: torch.Tensor, turn: Turn) -> torch.Tensor:
        many = self.many(values.numel(), turn)
        return payload_of(values, self._largest.places(values, many), many)


class TopKByBucket(TopK):
    """Another share for each bucket; the last one for all behind it."""

    def __init__(self, ratios: Sequence[float]) -> None:
        super().__init__(ratios[0])
        self.ratios = tuple(ratios)

    def ratio_at(self, turn: Turn) -> float:
        return self.ratios[min(turn.bucket, len(self.ratios) - 1)]
