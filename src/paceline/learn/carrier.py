"""`Carrier`: workers that carry clients, and move messages between them.

Client n is carried by worker n modulo the number of workers, the server by worker 0. `Alone` is one
worker that carries all; `torch_carrier.Gloo` are the processes of torch.distributed.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from paceline.learn.errors import Disconnected
from paceline.learn.message import SERVER, Message
from paceline.learn.samples import Vector


@dataclass(frozen=True, eq=False)
class Parcel:
    """A message on its way. One that goes to several clients of a worker travels there once."""

    source: int
    targets: tuple[int, ...]
    message: Message


class Pending(Protocol):
    """Parcels under way."""

    def wait(self) -> Sequence[Parcel]:
        """What came for this worker's clients, by source in ascending order."""


class PendingMean(Protocol):
    """A sum under way."""

    def mean(self) -> Vector | None:
        """Of all that was handed over, with zeros behind it; None where that is nothing."""


@dataclass(frozen=True)
class Reformed:
    """Workers that are gone, with the cause; the others go on from the beginning of a round."""

    gone: Mapping[int, str]
    round: int


class Carrier(ABC):
    """This worker's view."""

    rank: int
    workers: int
    sums: bool = False  # a mean is made by the library's all-reduce, not by every receiver

    def of(self, number: int) -> int:
        """The worker that carries a client, or the server."""
        return 0 if number == SERVER else number % self.workers

    def carries(self, number: int) -> bool:
        return self.of(number) == self.rank

    @abstractmethod
    def send(self, parcels: Sequence[Parcel], alike: str = "") -> Pending:
        """Hand over what this worker's clients send. Every worker calls it as often. `alike` names
        messages whose sizes never change, so that workers tell them to each other only once."""

    def summed(self, vectors: Sequence[Vector], size: int) -> "PendingMean":
        """Hand over vectors of at most that size, whose mean over all workers is wanted."""
        raise NotImplementedError(f"{type(self).__name__} does not add up")

    @property
    def gone(self) -> Mapping[int, str]:
        """Workers that have died, and why."""
        return {}

    @property
    def may_lose(self) -> bool:
        """Whether workers can go and the others go on, from rounds whose state is kept."""
        return False

    def reformed(self, round_: int, lost: Disconnected) -> Reformed:
        """Behind `lost`, in this round: those that are left agree on who they are. `lost` again
        where none can go on."""
        raise lost


@dataclass(frozen=True)
class Alone(Carrier):
    """One worker."""

    rank: int = 0
    workers: int = 1
    sums: bool = False

    def send(self, parcels: Sequence[Parcel], alike: str = "") -> Pending:
        return Here(tuple(parcels))


@dataclass(frozen=True, eq=False)
class Here:
    """Parcels that had no way to go."""

    parcels: tuple[Parcel, ...]

    def wait(self) -> Sequence[Parcel]:
        return sorted(self.parcels, key=lambda parcel: parcel.source)


def inboxes(parcels: Sequence[Parcel]) -> dict[int, dict[int, Message]]:
    """By receiver and sender, senders in ascending order."""
    found: dict[int, dict[int, Message]] = {}
    for parcel in sorted(parcels, key=lambda each: each.source):
        for target in parcel.targets:
            found.setdefault(target, {})[parcel.source] = parcel.message
    return found
