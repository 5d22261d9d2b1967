"""What a lossy codec left out, kept and added to the next gradient (error feedback).

Seide et al., "1-bit stochastic gradient descent" (2014); Karimireddy et al. (2019).
"""

import torch

from paceline.runtime.codecs.codec import Compressor, Turn

Key = tuple[int, ...]  # the parameters of a bucket, by identity


class ErrorFeedback:
    """One vector a bucket. A bucket that DDP forms anew begins without."""

    def __init__(self) -> None:
        self._left: dict[Key, torch.Tensor] = {}

    def corrected(self, key: Key, gradient: torch.Tensor) -> torch.Tensor:
        """The gradient and what was left of earlier ones, in the memory's own tensor."""
        left = self._left.get(key)
        if left is None:
            self._left = {k: v for k, v in self._left.items() if not set(k) & set(key)}
            left = self._left[key] = torch.zeros_like(gradient)
        return left.add_(gradient)

    def sent(
        self, corrected: torch.Tensor, payload: torch.Tensor, how: Compressor, turn: Turn
    ) -> None:
        """Keep what the payload does not say."""
        how.add(corrected, payload, turn, times=-1.0)
