"""Gradients above a threshold, which is found exactly only every so many steps.

Finding the largest takes most of top-k's time, and their bound changes slowly. Between refreshes as
many are sent as top-k would: where more are above, those from a place on that moves each step;
where fewer are, the rest of the payload repeats a place with the value 0.
"""

import torch

from paceline.runtime.codecs.codec import Codec, Sharing, Turn, kept
from paceline.runtime.codecs.torch_topk import Sparse, payload_of


class Threshold(Sparse):
    """Keeps one threshold a bucket."""

    def __init__(self, ratio: float, every: int) -> None:
        self.ratio, self.every = ratio, every
        self._bounds: dict[tuple[int, int], torch.Tensor] = {}  # by bucket and its length

    def compress(self, values: torch.Tensor, turn: Turn) -> torch.Tensor:
        many, key = kept(values.numel(), self.ratio), (turn.bucket, values.numel())
        if turn.step % self.every == 0 or key not in self._bounds:
            largest, places = values.abs().topk(many, sorted=False)
            self._bounds[key] = largest.min()
            return payload_of(values, places)
        places = (values.abs() >= self._bounds[key]).nonzero().flatten()
        if len(places) >= many:
            return payload_of(values, places.roll(-turn.step * many)[:many])
        payload = payload_of(values, torch.nn.functional.pad(places, (0, many - len(places))))
        payload[many + len(places) :] = 0
        return payload


def threshold(ratio: float, every: int) -> Codec:
    return Codec(Threshold(ratio, every), Sharing.GATHER, feedback=True)
