"""The parts of a codec as types: what compresses, what it remembers, how it is shared."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from enum import Enum
from math import ceil
from typing import Any

Tensor = Any  # torch's: this file needs no torch


class Sharing(Enum):
    """How ranks come by the sum of all payloads."""

    SUM = "all-reduce"  # the library adds them up
    GATHER = "all-gather"  # each rank gets all, and adds up what they stand for


@dataclass(frozen=True)
class Turn:
    """Which exchange this is; alike on all ranks."""

    bucket: int
    step: int  # exchanges of this bucket before
    shapes: tuple[tuple[int, ...], ...] = ()  # of the bucket's parameters, where a codec asks
    part: int = 0  # which parameter of the bucket, where each is compressed by itself


class Compressor(ABC):
    """Another form of a vector of gradients."""

    @abstractmethod
    def compress(self, values: Tensor, turn: Turn) -> Tensor:
        """What travels: one tensor, as long on every rank. `values` are not changed."""

    def averaged(self, values: Tensor, share: float, turn: Turn) -> Tensor:
        """What travels of `values` times `share`; `values` are lost."""
        return self.compress(values.mul_(share), turn)

    @abstractmethod
    def add(self, total: Tensor, payload: Tensor, turn: Turn, times: float = 1.0) -> None:
        """Add what the payload stands for, so many times, to `total`."""

    def restore(self, total: Tensor, payload: Tensor, turn: Turn) -> None:
        """Set `total` to what the payload stands for."""
        self.add(total.zero_(), payload, turn)


class Sparse(Compressor):
    """Some of the values, chosen by a rule."""

    @abstractmethod
    def numbers(self, count: int, turn: Turn) -> int:
        """How long the payload for so many values is."""

    @abstractmethod
    def clear(self, values: Tensor, payload: Tensor, turn: Turn) -> None:
        """Set to zero what the payload speaks of."""


class Iterative(ABC):
    """Another form of a vector that ranks share in several turns, each made from the sum of the
    one before."""

    @abstractmethod
    def first(self, values: Tensor, turn: Turn) -> Tensor:
        """What travels first. It is summed in place."""

    @abstractmethod
    def next(self, values: Tensor, turn: Turn, round_: int) -> Tensor | None:
        """What travels in a later turn, once the one before is summed; None behind the last."""

    @abstractmethod
    def restore(self, total: Tensor, turn: Turn) -> None:
        """Set `total` to what all sums stand for."""

    def keep(self, values: Tensor, total: Tensor, members: int, turn: Turn) -> None:
        """Leave in `values` what `total` lacks of them; over all members the two add up."""
        values.sub_(total, alpha=1 / members)


@dataclass(frozen=True)
class Momentum:
    """Momentum that each worker accumulates itself, before it compresses (DGC's correction)."""

    factor: float
    nesterov: bool = False
    masked: bool = True  # what was sent loses its momentum, so that it does not work twice
    clip: float = 0.0  # the norm to which all workers' gradients are clipped; 0: they are not


@dataclass(frozen=True)
class Codec:
    """One way to send gradients."""

    compressor: Compressor | Iterative
    sharing: Sharing
    feedback: bool = False  # what a step leaves out is added to the next step's gradient
    momentum: Momentum | None = None  # None: the optimizer's own, behind the exchange

    @property
    def remembers(self) -> bool:
        """Whether anything of a step is kept for the next."""
        return self.feedback or self.momentum is not None

    @property
    def gathers(self) -> bool:
        """Whether every rank gets all payloads."""
        return self.sharing is Sharing.GATHER


def kept(count: int, ratio: float) -> int:
    """How many of so many gradients a sparse codec sends: at least one."""
    return min(count, max(1, ceil(ratio * count)))
