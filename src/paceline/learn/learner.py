"""`Learner`: what is trained, as one flat vector of numbers.

Algorithms work on such vectors alone, so that they need no torch and their laws hold for any
learner. `torch_network.NetworkLearner` is the learner of torch's modules.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Protocol

from paceline.learn.samples import Rows, Vector


@dataclass(frozen=True)
class TensorSpan:
    """One tensor of the vector. Behind what gradients move stand statistics (of batch norm)."""

    name: str
    first: int
    shape: tuple[int, ...]
    stage: int = 0  # which block of a model that grows; its head has the block's number
    head: bool = False  # of a model that grows: the classifier behind its block

    @property
    def size(self) -> int:
        return prod(self.shape)

    @property
    def place(self) -> slice:
        return slice(self.first, self.first + self.size)


@dataclass(frozen=True, eq=False)
class Gradient:
    """As long as the learner's trained part."""

    values: Vector
    loss: float


class Learner(Protocol):
    """Two learners of the same settings start, train and answer alike to the last bit."""

    @property
    def layers(self) -> Sequence[TensorSpan]:
        """In the order of the vector; the trained ones first."""

    @property
    def size(self) -> int:
        """Numbers in the vector."""

    @property
    def trained(self) -> int:
        """How many of them gradients move; the rest are statistics."""

    @property
    def stages(self) -> int:
        """Blocks of a model that can grow; 1 where it cannot."""

    def start(self, seed: int) -> Vector:
        """Weights before training."""

    def gradient(self, weights: Vector, rows: Rows, stage: int | None = None) -> Gradient:
        """Of these training samples; statistics in `weights` move along. With a stage, of the
        model up to that block and its head alone; the rest of the gradient is 0."""

    def right(self, weights: Vector, rows: Rows | None = None, stage: int | None = None) -> float:
        """Share of right answers: on the test samples, or on these training samples."""

    def arithmetic(self, stage: int | None = None) -> float:
        """Arithmetic of a training sample up to that stage, as a share of the whole model's."""
