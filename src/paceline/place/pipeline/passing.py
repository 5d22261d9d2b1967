"""Bytes of a message between stages where only the largest activations pass, packed
(`runtime.stages.torch_border`)."""

from math import ceil
from typing import Final

from paceline.runtime.codecs import kept

_HEAD_BYTES: Final = 64  # says what the message was packed from
_VALUE_BYTES: Final = 4
PACKED_BYTES: Final = 2
"""Of a value that passes."""
MASK_BYTES: Final = 1 / 8
"""Of every value, whether it passes."""


def down_bytes(size_bytes: int, share: float) -> int:
    """Of activations that take so many bytes whole: which pass, and their values."""
    if share >= 1:
        return size_bytes
    count = size_bytes // _VALUE_BYTES
    return _HEAD_BYTES + ceil(count * MASK_BYTES) + PACKED_BYTES * kept(count, share)


def up_bytes(size_bytes: int, share: float) -> int:
    """Of their gradients, whose places both sides know."""
    return size_bytes if share >= 1 else PACKED_BYTES * kept(size_bytes // _VALUE_BYTES, share)


def share_for(part: float) -> float:
    """Of the activations that may pass so that a message takes this part of its bytes."""
    return (part * _VALUE_BYTES - MASK_BYTES) / PACKED_BYTES
