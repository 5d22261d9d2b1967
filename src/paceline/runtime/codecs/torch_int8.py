"""Eight bits a gradient: multiples of the bucket's largest magnitude over 127.

The payload is the multiple as float32, then one byte a gradient.
"""

import torch

from paceline.runtime.codecs.codec import Codec, Compressor, Sharing, Turn
from paceline.runtime.codecs.torch_blocks import blocks, room

_MOST = 127
_HEAD_BYTES = 4


class Int8(Compressor):
    """Rounded to the nearest multiple."""

    def compress(self, values: torch.Tensor, turn: Turn) -> torch.Tensor:
        least, most = torch.aminmax(values)
        unit = (torch.maximum(-least, most) / _MOST).clamp_min(torch.finfo(values.dtype).tiny)
        payload = values.new_empty(_HEAD_BYTES + values.numel(), dtype=torch.uint8)
        payload[:_HEAD_BYTES] = unit.reshape(1).view(torch.uint8)
        rounded, scratch = payload[_HEAD_BYTES:].view(torch.int8), room(values)
        for given, made in blocks(values, rounded):
            made.copy_(torch.div(given, unit, out=scratch[: len(given)]).round_())
        return payload

    def add(
        self, total: torch.Tensor, payload: torch.Tensor, turn: Turn, times: float = 1.0
    ) -> None:
        unit, scratch = float(payload[:_HEAD_BYTES].clone().view(torch.float32)), room(total)
        for sum_, sent in blocks(total, payload[_HEAD_BYTES:].view(torch.int8)):
            sum_.add_(scratch[: len(sent)].copy_(sent), alpha=times * unit)


def int8() -> Codec:
    return Codec(Int8(), Sharing.GATHER, feedback=True)
