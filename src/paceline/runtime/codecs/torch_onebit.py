"""One bit a gradient: its sign, which stands for the mean of all gradients of that sign.

The payload is the two means as float32, then eight signs a byte.
"""

import torch

from paceline.runtime.codecs.codec import Codec, Compressor, Sharing, Turn

_HEAD_BYTES = 8
_BITS = 8


class OneBit(Compressor):
    """Signs and two means."""

    def compress(self, values: torch.Tensor, turn: Turn) -> torch.Tensor:
        up = values >= 0
        ups = up.sum().clamp(1, values.numel() - 1 or 1)
        high = values.clamp_min(0).sum() / ups
        low = values.clamp_max(0).sum() / (values.numel() - ups).clamp_min(1)
        means = torch.stack([high, low]).view(torch.uint8)
        return torch.cat([means, _packed(up)])

    def add(
        self, total: torch.Tensor, payload: torch.Tensor, turn: Turn, times: float = 1.0
    ) -> None:
        high, low = payload[:_HEAD_BYTES].clone().view(torch.float32)
        up = _unpacked(payload[_HEAD_BYTES:], total.numel())
        total.add_(torch.where(up, high, low), alpha=times)


def _packed(bits: torch.Tensor) -> torch.Tensor:
    missing = -bits.numel() % _BITS
    whole = torch.nn.functional.pad(bits.to(torch.uint8), (0, missing))
    return (whole.view(-1, _BITS) * _weights(bits)).sum(1, dtype=torch.uint8)


def _unpacked(packed: torch.Tensor, count: int) -> torch.Tensor:
    return (packed.unsqueeze(1) & _weights(packed)).ne(0).flatten()[:count]


def _weights(beside: torch.Tensor) -> torch.Tensor:
    return 2 ** torch.arange(_BITS, dtype=torch.uint8, device=beside.device)


def onebit() -> Codec:
    return Codec(OneBit(), Sharing.GATHER, feedback=True)
