"""One bit a gradient: its sign, which stands for the mean of all gradients of that sign.

The payload is the two means as float32, then the signs as bits.
"""

import torch

from paceline.runtime.codecs.codec import Codec, Compressor, Sharing, Turn
from paceline.runtime.torch_bits import bits_of_bytes, packed

_HEAD_BYTES = 8


class OneBit(Compressor):
    """Signs and two means."""

    def compress(self, values: torch.Tensor, turn: Turn) -> torch.Tensor:
        up = values >= 0
        ups, whole, size = up.count_nonzero(), values.sum(), torch.linalg.vector_norm(values, 1)
        high = (size + whole) / 2 / ups.clamp_min(1)
        low = (whole - size) / 2 / (values.numel() - ups).clamp_min(1)
        means = torch.stack([high, low]).view(torch.uint8)
        return torch.cat([means, packed(up)])

    def add(
        self, total: torch.Tensor, payload: torch.Tensor, turn: Turn, times: float = 1.0
    ) -> None:
        high, low = payload[:_HEAD_BYTES].clone().view(torch.float32)
        meant = torch.where(bits_of_bytes(total.device), high, low)
        found = meant.index_select(0, payload[_HEAD_BYTES:].to(torch.int32)).flatten()
        total.add_(found[: total.numel()], alpha=times)


def onebit() -> Codec:
    return Codec(OneBit(), Sharing.GATHER, feedback=True)
