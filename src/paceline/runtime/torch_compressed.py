"""Saved activations in 16 or 8 bits."""

from collections.abc import Callable, Mapping

import torch

from paceline.runtime.torch_stash import Form

LEVELS = 255  # of an unsigned byte


class Half:
    """bfloat16: the range of float32, 7 bits of mantissa."""

    def __init__(self, flat: torch.Tensor) -> None:
        self._values = flat.to(torch.bfloat16)

    def restored(self) -> torch.Tensor:
        return self._values.float()


class Byte:
    """Evenly spaced between the least and the largest value, such that zero stays zero: what a ReLU
    cut off stays cut off."""

    def __init__(self, flat: torch.Tensor) -> None:
        low, high = torch.aminmax(flat)
        low, high = low.clamp(max=0.0), high.clamp(min=0.0)
        self._step = ((high - low) / LEVELS).clamp(min=torch.finfo(torch.float32).tiny)
        self._zero = torch.round(-low / self._step)
        scaled = flat.div(self._step)
        self._values = scaled.round_().add_(self._zero).clamp_(0, LEVELS).to(torch.uint8)

    def restored(self) -> torch.Tensor:
        return self._values.float().sub_(self._zero).mul_(self._step)


FORMS: Mapping[int, Callable[[torch.Tensor], Form]] = {16: Half, 8: Byte}
"""By bits of a value."""
