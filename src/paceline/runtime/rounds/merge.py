"""`Merge`: what travels of a rank's weights, and what it makes of the mean that comes back."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from paceline.graph.rounds import Rounds


@dataclass(frozen=True, eq=False)
class ReplicaFragment:
    """A fragment of one replica's weights."""

    number: int
    weights: tuple[Any, ...]  # trained tensors
    states: Callable[[], Sequence[Any]]  # the optimizer's tensors of their sizes, as they are now


class Merge(ABC):
    """One method's own state; one for each replica."""

    @abstractmethod
    def begin(self, fragment: ReplicaFragment) -> None:
        """Before the first step, when all ranks hold the same weights."""

    @abstractmethod
    def pack(self, fragment: ReplicaFragment) -> Any:
        """One flat tensor, whose mean over the ranks is wanted."""

    @abstractmethod
    def take(self, fragment: ReplicaFragment, mean: Any) -> None:
        """The mean has come."""


@dataclass(frozen=True)
class WeightRounds:
    """What a strategy asks for."""

    rounds: Rounds
    merge: Callable[[], Merge]  # a new one
