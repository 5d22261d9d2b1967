"""What a codec remembers of a bucket from step to step: nothing, an error, a momentum.

The error is what a lossy codec left out, added to the next gradient (error feedback; Seide et al.,
"1-bit stochastic gradient descent", 2014; Karimireddy et al., 2019). The momentum is accumulated
before compression, so that what waits is a velocity (Lin et al., 2018).
"""

from abc import ABC, abstractmethod
from math import sqrt

import torch

from paceline.runtime.codecs.codec import Codec, Compressor, Momentum, Sparse, Turn

Key = tuple[int, ...]  # the parameters of a bucket, by identity


def memory_of(codec: Codec, members: int) -> "CodecMemory":
    """The memory that a codec asks for, among so many workers."""
    if codec.momentum is not None:
        return LocalMomentum(codec.momentum, codec.feedback, members)
    return ErrorFeedback() if codec.feedback else Nothing()


class CodecMemory(ABC):
    """Gradients are over the number of workers, so that their sum is the mean."""

    @abstractmethod
    def corrected(self, key: Key, gradient: torch.Tensor) -> torch.Tensor:
        """What is to be compressed, in place of the gradient."""

    @abstractmethod
    def sent(
        self, corrected: torch.Tensor, payload: torch.Tensor, how: Compressor, turn: Turn
    ) -> None:
        """Keep what the payload does not say."""


class Nothing(CodecMemory):
    """What is left out is lost."""

    def corrected(self, key: Key, gradient: torch.Tensor) -> torch.Tensor:
        return gradient

    def sent(
        self, corrected: torch.Tensor, payload: torch.Tensor, how: Compressor, turn: Turn
    ) -> None:
        pass


class ErrorFeedback(CodecMemory):
    """What was left of earlier gradients."""

    def __init__(self) -> None:
        self._left = Vectors()

    def corrected(self, key: Key, gradient: torch.Tensor) -> torch.Tensor:
        return self._left.of(key, gradient).add_(gradient)

    def sent(
        self, corrected: torch.Tensor, payload: torch.Tensor, how: Compressor, turn: Turn
    ) -> None:
        how.add(corrected, payload, turn, times=-1.0)


class LocalMomentum(CodecMemory):
    """u = m u + g, and what waits is the sum of the u: momentum correction. What was sent is
    cleared in both (masking)."""

    def __init__(self, momentum: Momentum, feedback: bool, members: int) -> None:
        self._momentum, self._feedback = momentum, feedback
        self._limit = momentum.clip / sqrt(members) / members
        self._velocities, self._left = Vectors(), Vectors()
        self._now: dict[int, torch.Tensor] = {}  # by a bucket's `corrected`: its velocity

    def corrected(self, key: Key, gradient: torch.Tensor) -> torch.Tensor:
        factor = self._momentum.factor
        self._clip(gradient)
        velocity = self._velocities.of(key, gradient)
        velocity.mul_(factor).add_(gradient)
        left = self._left.of(key, gradient)
        if not self._feedback:
            left.zero_()
        left.add_(velocity, alpha=factor if self._momentum.nesterov else 1.0)
        if self._momentum.nesterov:
            left.add_(gradient)
        self._now[id(left)] = velocity
        return left

    def sent(
        self, corrected: torch.Tensor, payload: torch.Tensor, how: Compressor, turn: Turn
    ) -> None:
        if not isinstance(how, Sparse):
            raise TypeError(f"{type(how).__name__} sends every value; local momentum is for some")
        velocity = self._now.pop(id(corrected))
        how.add(corrected, payload, turn, times=-1.0)
        if self._momentum.masked:
            how.clear(velocity, payload, turn)

    def _clip(self, gradient: torch.Tensor) -> None:
        if not self._limit:
            return
        norm = float(torch.linalg.vector_norm(gradient))
        if norm > self._limit:
            gradient.mul_(self._limit / norm)


class Vectors:
    """One vector a bucket. A bucket that DDP forms anew begins with zeros."""

    def __init__(self) -> None:
        self._held: dict[Key, torch.Tensor] = {}

    def of(self, key: Key, like: torch.Tensor) -> torch.Tensor:
        held = self._held.get(key)
        if held is None:
            self._held = {k: v for k, v in self._held.items() if not set(k) & set(key)}
            held = self._held[key] = torch.zeros_like(like)
        return held
