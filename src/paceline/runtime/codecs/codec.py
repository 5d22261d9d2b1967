"""The parts of a codec as types: what compresses, whether it remembers, how it is shared."""

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


class Compressor(ABC):
    """Another form of a vector of gradients."""

    @abstractmethod
    def compress(self, values: Tensor, turn: Turn) -> Tensor:
        """What travels: one tensor, as long on every rank. `values` are not changed."""

    @abstractmethod
    def add(self, total: Tensor, payload: Tensor, turn: Turn, times: float = 1.0) -> None:
        """Add what the payload stands for, so many times, to `total`."""

    def restore(self, total: Tensor, payload: Tensor, turn: Turn) -> None:
        """Set `total` to what the payload stands for."""
        self.add(total.zero_(), payload, turn)


@dataclass(frozen=True)
class Codec:
    """One way to send gradients."""

    compressor: Compressor
    sharing: Sharing
    feedback: bool = False  # what a step leaves out is added to the next step's gradient


def kept(count: int, ratio: float) -> int:
    """How many of so many gradients a sparse codec sends: at least one."""
    return min(count, max(1, ceil(ratio * count)))
