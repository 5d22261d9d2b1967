"""Eight bits a gradient: multiples of the bucket's largest magnitude over 127.

The payload is the multiple as float32, then one byte a gradient.
"""

import torch

from paceline.runtime.codecs.codec import Codec, Compressor, Sharing, Turn

_MOST = 127
_HEAD_BYTES = 4


class Int8(Compressor):
    """Rounded to the nearest multiple."""

    def compress(self, values: torch.Tensor, turn: Turn) -> torch.Tensor:
        unit = (values.abs().max() / _MOST).clamp_min(torch.finfo(values.dtype).tiny)
        rounded = (values / unit).round_().to(torch.int8)
        return torch.cat([unit.reshape(1).view(torch.uint8), rounded.view(torch.uint8)])

    def add(
        self, total: torch.Tensor, payload: torch.Tensor, turn: Turn, times: float = 1.0
    ) -> None:
        unit = payload[:_HEAD_BYTES].clone().view(torch.float32)
        total.add_(payload[_HEAD_BYTES:].view(torch.int8) * unit, alpha=times)


def int8() -> Codec:
    return Codec(Int8(), Sharing.GATHER, feedback=True)
