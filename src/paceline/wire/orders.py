"""What an endpoint is asked to send and receive, and what is told of it."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from paceline.wire.importance import UNMARKED, Marks

Bytes = NDArray[np.uint8]


class TransferPhase(IntEnum):
    """What a tensor is on its way for; part of every packet's name."""

    PUSH = 1  # gradients to a server
    PULL = 2  # parameters from it
    SCATTER = 3  # the first half of an all-reduce: gradients to who adds them up
    GATHER = 4  # the second: sums to all
    FLAGS = 5  # which packets are missing
    DIGEST = 6  # of what a replica holds


@dataclass(frozen=True)
class Send:
    """Values for a peer."""

    peer: int
    values: NDArray[Any]
    tensor: int = 0
    layer: int = 0
    marks: Marks = UNMARKED


@dataclass(frozen=True)
class Receive:
    """Room for a peer's values. What is lost within the budget (a share) stays as it was there."""

    peer: int
    into: NDArray[Any]
    tensor: int = 0
    budget: float = 0.0


@dataclass(frozen=True)
class Orders:
    """Tensors of one phase of a step. `budget_bytes` is what all receives together may lose, beside
    each one's own budget. Empty tensors are not sent."""

    step: int
    phase: TransferPhase
    sends: Sequence[Send] = ()
    receives: Sequence[Receive] = ()
    budget_bytes: int | None = None

    def named(self, one: Send | Receive) -> "Transfer":
        return Transfer(one.peer, self.step, one.tensor, self.phase)


@dataclass(frozen=True)
class Transfer:
    """The name of a tensor between us and a peer."""

    peer: int
    step: int
    tensor: int
    phase: TransferPhase


@dataclass(frozen=True)
class Arrived:
    """What came of one tensor. `flags` has a byte per packet, 1 where it has arrived."""

    transfer: Transfer
    size_bytes: int
    missing_bytes: int
    ended_ns: int  # on the monotonic clock
    flags: Bytes
