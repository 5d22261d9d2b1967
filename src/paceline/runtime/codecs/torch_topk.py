"""The largest gradients of a bucket by magnitude, with their places.

The payload is as many places as values, both as 32 bits: first the places, then the values.
"""

import torch

from paceline.runtime.codecs.codec import Codec, Compressor, Sharing, Turn, kept


class Sparse(Compressor):
    """Places and values; which ones, the codecs built on it say."""

    def add(
        self, total: torch.Tensor, payload: torch.Tensor, turn: Turn, times: float = 1.0
    ) -> None:
        places, values = payload.chunk(2)
        total.index_add_(0, places, values.view(torch.float32), alpha=times)


class TopK(Sparse):
    """A share of all, at least one."""

    def __init__(self, ratio: float) -> None:
        self.ratio = ratio

    def compress(self, values: torch.Tensor, turn: Turn) -> torch.Tensor:
        many = kept(values.numel(), self.ratio)
        return payload_of(values, values.abs().topk(many, sorted=False).indices)


def payload_of(values: torch.Tensor, places: torch.Tensor) -> torch.Tensor:
    return torch.cat([places.to(torch.int32), values[places].view(torch.int32)])


def topk(ratio: float) -> Codec:
    return Codec(TopK(ratio), Sharing.GATHER, feedback=True)
