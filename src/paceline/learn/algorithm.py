"""`Algorithm`: what a client does in a round, what it sends, how what was sent is merged.

An algorithm is a frozen dataclass whose fields are the settings, in a file that has its name under
`algorithms/`. Most are one of two kinds: `Served` clients meet at a server, `Peers` have no server
and each keeps weights of its own. Arithmetic runs in the order of the clients' numbers, so that a
run is the same to the last bit whoever carries the clients.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from math import cos, pi
from typing import Any

import numpy as np
from numpy.typing import NDArray

from paceline.learn.carrier import Carrier
from paceline.learn.client import Client
from paceline.learn.errors import LearnError
from paceline.learn.learner import Learner
from paceline.learn.message import Message
from paceline.learn.samples import Vector


class Meeting(Enum):
    """How clients come by what the others send."""

    SERVER = "server"  # a server hands out, and takes in
    MEAN = "mean"  # everyone gets the mean of all messages: an all-reduce
    ALL = "all"  # everyone gets everyone's message: an all-gather
    LINKS = "links"  # another message for each peer


@dataclass(frozen=True, eq=False)
class Setting:
    """What an algorithm is told of the training."""

    learner: Learner
    sizes: tuple[int, ...]  # samples of each client
    rounds: int
    seed: int

    @property
    def clients(self) -> int:
        return len(self.sizes)

    def shares(self, clients: Sequence[int]) -> Vector:
        """How much each of these clients counts: by its samples."""
        sizes = np.array([self.sizes[n] for n in clients], np.float64)
        found: Vector = (sizes / sizes.sum()).astype(np.float32)
        return found


@dataclass(frozen=True, eq=False)
class JudgedModel:
    """What is judged: weights, and how much of a model that grows is there."""

    weights: Vector
    stage: int | None = None


@dataclass(frozen=True)
class Algorithm(ABC):
    """Settings of the local steps, SGD with momentum."""

    lr: float = 0.05
    momentum: float = 0.9
    batch: int = 20
    steps: int = 10  # of a client in a round
    last_lr: float = 1.0  # the last round's rate as a share of the first's; a cosine between

    @property
    @abstractmethod
    def meeting(self) -> Meeting:
        """How its clients meet."""

    def __post_init__(self) -> None:
        self.require(self.lr > 0 and 0 <= self.momentum < 1, "lr is above 0, momentum below 1")
        self.require(min(self.batch, self.steps) >= 1, "a batch and the steps are 1 or more")
        self.require(0 <= self.last_lr <= 1, "last_lr is a share from 0 to 1")

    def require(self, fine: bool, why: str) -> None:
        if not fine:
            raise LearnError(f"{self}: {why}")

    def rate(self, at: Setting, round_: int) -> float:
        """The learning rate of a round, from 0."""
        gone = round_ / max(1, at.rounds - 1)
        return self.lr * (self.last_lr + (1 - self.last_lr) * (1 + cos(pi * gone)) / 2)

    def prepared(self, at: Setting, carrier: Carrier) -> "Algorithm":
        """With what it measures before training."""
        return self

    def batch_of(self, client: int) -> int:
        """Samples of a client's step."""
        return self.batch

    def steps_of(self, client: Client) -> int:
        """In its next round; the same of all clients."""
        return self.steps

    def notes(self, at: Setting) -> tuple[str, ...]:
        """What is to be known of a run of so many rounds."""
        return ()

    def arithmetic(self, at: Setting, round_: int) -> float:
        """Arithmetic of a sample in this round, as a share of the whole model's."""
        return 1.0


Memory = dict[str, NDArray[Any]]
"""What a server remembers, by name."""


@dataclass(frozen=True)
class Served(Algorithm):
    """Clients meet at a server."""

    @property
    def meeting(self) -> Meeting:
        return Meeting.SERVER

    def open(self, at: Setting) -> Memory:
        """The server's memory before the first round."""
        return {"weights": at.learner.start(at.seed)}

    @abstractmethod
    def hand_out(self, at: Setting, server: Memory, client: int, round_: int) -> Message:
        """What the server sends to a client."""

    @abstractmethod
    def train(self, at: Setting, client: Client, told: Message, round_: int) -> Message:
        """What the client makes of it."""

    @abstractmethod
    def close(self, at: Setting, server: Memory, inbox: Mapping[int, Message], round_: int) -> None:
        """Merge what came, by client in ascending order."""

    def model(self, at: Setting, server: Memory, round_: int) -> JudgedModel:
        return JudgedModel(server["weights"])


Outgoing = Message | Mapping[int, Message]
"""The same for all, or one for each peer."""

Talk = Callable[[Mapping[int, Mapping[int, Message]]], Mapping[int, Mapping[int, Message]]]
"""Sends messages, by sender and receiver; returns what came, by receiver and sender."""


@dataclass(frozen=True)
class Peers(Algorithm):
    """Every client keeps weights of its own."""

    @property
    def lag(self) -> int:
        """Rounds during which messages travel; 0: clients wait for them."""
        return 0

    def begin(self, at: Setting, client: Client) -> None:
        client.weights = at.learner.start(at.seed)

    @abstractmethod
    def train(self, at: Setting, client: Client, round_: int) -> Outgoing:
        """Local steps; what the client then sends."""

    def merged(self, at: Setting, inbox: Mapping[int, Message]) -> Any:
        """What `take` is given, made once for all clients that got the same messages."""
        return inbox

    @abstractmethod
    def take(self, at: Setting, client: Client, merged: Any, round_: int) -> None:
        """Merge what came."""

    def after(self, at: Setting, mine: Mapping[int, Client], round_: int, talk: Talk) -> None:
        """What else clients do behind a round. Every worker calls `talk` as often."""

    def apart(self, at: Setting, client: Client, round_: int) -> Vector:
        """Behind `train`: the client's model with all that it learned by itself, also what it has
        not sent."""
        return client.weights


def mean(vectors: Sequence[Vector], shares: Vector | None = None) -> Vector:
    """In the given order, so that it is the same wherever it is made."""
    for at, vector in enumerate(vectors):
        if vector.shape != vectors[0].shape:
            raise LearnError(
                f"message {at} has {vector.size} numbers and the first has {vectors[0].size}, so "
                "they have no mean: clients' models have unequal shapes. Give all the same model"
            )
    each = 1 / len(vectors)
    total = np.zeros_like(vectors[0])
    for at, vector in enumerate(vectors):
        total += np.float32(each if shares is None else shares[at]) * vector
    return total
