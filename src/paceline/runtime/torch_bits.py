"""Truth values as bits: eight a byte, the first in the lowest bit.

Bits are gathered from eight bytes by one multiplication, and spread by a table of all bytes: both
are several times faster than shifts, on machines whose lowest byte comes first.
"""

import torch

_BITS = 8
_GATHER = 0x0102040810204080  # moves the lowest bit of each byte into the highest byte
_HIGHEST = 56


def packed(bits: torch.Tensor) -> torch.Tensor:
    """A flat tensor of truth values as bytes."""
    missing = -bits.numel() % _BITS
    words = torch.nn.functional.pad(bits, (0, missing)).view(torch.int64)
    return (words * _GATHER >> _HIGHEST).to(torch.uint8)


def spread(bytes_: torch.Tensor, count: int) -> torch.Tensor:
    """The first so many truth values of packed ones."""
    rows = bits_of_bytes(bytes_.device).index_select(0, bytes_.to(torch.int32))
    return rows.view(-1)[:count]


def bits_of_bytes(device: torch.device) -> torch.Tensor:
    """Row b holds the bits of byte b, the lowest first."""
    each = torch.arange(2**_BITS, device=device).unsqueeze(1)
    return (each >> torch.arange(_BITS, device=device)) & 1 != 0
