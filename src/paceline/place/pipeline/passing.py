"""Bytes of a message between stages where only the largest activations pass (`torch_border`)."""

from typing import Final

from paceline.runtime.codecs import kept

_HEAD_BYTES: Final = 64  # says what the message was packed from
_VALUE_BYTES: Final = 4
_PLACE_BYTES: Final = 4


def down_bytes(size_bytes: int, share: float) -> int:
    """Of activations that take so many bytes whole: values with their places."""
    if share >= 1:
        return size_bytes
    return _HEAD_BYTES + (_VALUE_BYTES + _PLACE_BYTES) * kept(size_bytes // _VALUE_BYTES, share)


def up_bytes(size_bytes: int, share: float) -> int:
    """Of their gradients, whose places both sides know."""
    return size_bytes if share >= 1 else _VALUE_BYTES * kept(size_bytes // _VALUE_BYTES, share)
