"""Gradients as 16-bit floating point numbers, and as they are. Libraries add both up natively."""

import torch

from paceline.runtime.codecs.codec import Codec, Compressor, Sharing, Turn


class Cast(Compressor):
    """Another type of number."""

    def __init__(self, dtype: torch.dtype) -> None:
        self.dtype = dtype

    def compress(self, values: torch.Tensor, turn: Turn) -> torch.Tensor:
        return values.to(self.dtype)

    def averaged(self, values: torch.Tensor, share: float, turn: Turn) -> torch.Tensor:
        """In half precision the product is taken of half the bytes, as torch's own hook does it;
        processors multiply bfloat16 by a detour."""
        if self.dtype is torch.float16:
            return values.to(self.dtype).mul_(share)
        return super().averaged(values, share, turn)

    def add(
        self, total: torch.Tensor, payload: torch.Tensor, turn: Turn, times: float = 1.0
    ) -> None:
        total.add_(payload, alpha=times)

    def restore(self, total: torch.Tensor, payload: torch.Tensor, turn: Turn) -> None:
        if payload is not total:
            total.copy_(payload)


class AsIs(Cast):
    """No codec: gradients travel in their own type and memory."""

    def __init__(self) -> None:
        super().__init__(torch.float32)

    def compress(self, values: torch.Tensor, turn: Turn) -> torch.Tensor:
        return values


def cast(dtype: torch.dtype) -> Codec:
    return Codec(Cast(dtype), Sharing.SUM)


def plain() -> Codec:
    return Codec(AsIs(), Sharing.SUM)
