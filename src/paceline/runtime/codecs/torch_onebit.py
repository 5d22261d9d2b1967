"""One bit a gradient: its sign, which stands for the mean of all gradients of that sign.

The payload is the two means as float32, then eight signs a byte, the first in the lowest bit. Bits
are gathered from eight bytes by one multiplication, and spread by a table of all bytes: both are
several times faster than shifts, on machines whose lowest byte comes first.
"""

import torch

from paceline.runtime.codecs.codec import Codec, Compressor, Sharing, Turn

_HEAD_BYTES = 8
_BITS = 8
_GATHER = 0x0102040810204080  # moves the lowest bit of each byte into the highest byte
_HIGHEST = 56


class OneBit(Compressor):
    """Signs and two means."""

    def compress(self, values: torch.Tensor, turn: Turn) -> torch.Tensor:
        up = values >= 0
        ups, whole, size = up.count_nonzero(), values.sum(), torch.linalg.vector_norm(values, 1)
        high = (size + whole) / 2 / ups.clamp_min(1)
        low = (whole - size) / 2 / (values.numel() - ups).clamp_min(1)
        means = torch.stack([high, low]).view(torch.uint8)
        return torch.cat([means, _packed(up)])

    def add(
        self, total: torch.Tensor, payload: torch.Tensor, turn: Turn, times: float = 1.0
    ) -> None:
        high, low = payload[:_HEAD_BYTES].clone().view(torch.float32)
        meant = torch.where(_bits_of_bytes(total.device), high, low)
        found = meant.index_select(0, payload[_HEAD_BYTES:].to(torch.int32)).flatten()
        total.add_(found[: total.numel()], alpha=times)


def _packed(bits: torch.Tensor) -> torch.Tensor:
    missing = -bits.numel() % _BITS
    words = torch.nn.functional.pad(bits, (0, missing)).view(torch.int64)
    return (words * _GATHER >> _HIGHEST).to(torch.uint8)


def _bits_of_bytes(device: torch.device) -> torch.Tensor:
    """Row b holds the bits of byte b, the lowest first."""
    each = torch.arange(2**_BITS, device=device).unsqueeze(1)
    return (each >> torch.arange(_BITS, device=device)) & 1 != 0


def onebit() -> Codec:
    return Codec(OneBit(), Sharing.GATHER, feedback=True)
