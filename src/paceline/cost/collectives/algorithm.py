"""The contract of a collective algorithm: rounds of messages between members.

Members are numbered 0..n-1 within their group. `size_bytes` is the whole tensor: what all-reduce,
broadcast and reduce carry, what all-gather has put together, what reduce-scatter cuts up, and each
member's own buffer in all-to-all.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from paceline.graph.kinds import Collective


@dataclass(frozen=True, eq=False)
class Round:
    """Messages that leave together; the round happens `repeat` times in succession."""

    src: NDArray[np.int64]
    dst: NDArray[np.int64]
    size_bytes: NDArray[np.float64]
    repeat: int = 1
    reduced: bool = False  # the receiver adds what it gets to what it has
    beside_next: bool = False  # it hides behind the call that follows, if one does


@dataclass(frozen=True)
class Call:
    """One collective: what, how many bytes, and on which host each member is."""

    collective: Collective
    size_bytes: int
    hosts: tuple[int, ...]
    root: int = 0
    after_rest: int = 0  # messages in it before which their link rested
    followed: bool = False  # by a call of the same kind, at least as large, in flight with it

    @property
    def members(self) -> int:
        return len(self.hosts)


@dataclass(frozen=True)
class Algorithm(ABC):
    """One way to carry out one or more collectives. Fields are its settings."""

    name: ClassVar[str]
    serves: ClassVar[frozenset[Collective]]
    stalls: ClassVar[bool] = False
    """Whether its messages take a library's `stall_ns` at least."""

    @abstractmethod
    def rounds(self, call: Call) -> list[Round]:
        """What is sent, in order. Called for two members or more."""


def everyone_to(shift: int, n: int, size_bytes: float, repeat: int, *, reduced: bool) -> Round:
    """Each member sends to the one `shift` places on."""
    src = np.arange(n)
    return Round(src, (src + shift) % n, np.full(n, float(size_bytes)), repeat, reduced)


def messages(
    rows: Iterable[tuple[int, int]], size_bytes: float, repeat: int = 1, *, reduced: bool = False
) -> Round:
    """A round from (source, destination) pairs that all carry the same."""
    table = np.array(list(rows), np.int64).reshape(-1, 2)
    return Round(table[:, 0], table[:, 1], np.full(len(table), float(size_bytes)), repeat, reduced)


def pipelined(
    stages: Sequence[Sequence[tuple[int, int]]], chunk_bytes: float, chunks: int, reduced: int = 0
) -> list[Round]:
    """Chunk k crosses stage s in round k + s; equal rounds are folded. The first `reduced` stages
    add up."""
    found: list[Round] = []
    previous: range | None = None
    for turn in range(chunks + len(stages) - 1):
        active = range(max(0, turn - chunks + 1), min(turn, len(stages) - 1) + 1)
        if active == previous:
            last = found[-1]
            found[-1] = Round(last.src, last.dst, last.size_bytes, last.repeat + 1, last.reduced)
        else:
            edges = [edge for stage in active for edge in stages[stage]]
            found.append(messages(edges, chunk_bytes, reduced=active.start < reduced))
        previous = active
    return found
