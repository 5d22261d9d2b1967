"""Synchronous SGD: the mean of all clients' gradients after every step, as DDP trains.

Every client takes the same step, so their weights stay alike; statistics of batch normalisation are
each client's own. It is what other methods are measured by.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from paceline.learn.algorithm import Meeting, Outgoing, Peers, Setting, mean
from paceline.learn.client import Client
from paceline.learn.message import Message
from paceline.learn.samples import Vector


@dataclass(frozen=True)
class Synchronous(Peers):
    steps: int = 1

    @property
    def meeting(self) -> Meeting:
        return Meeting.MEAN

    def __post_init__(self) -> None:
        super().__post_init__()
        self.require(self.steps == 1, "a round is one step; local_sgd has more")

    def begin(self, at: Setting, client: Client) -> None:
        super().begin(at, client)
        client.keeps["velocity"] = np.zeros(at.learner.trained, np.float32)

    def train(self, at: Setting, client: Client, round_: int) -> Outgoing:
        found = at.learner.gradient(client.weights, client.batch(self.batch))
        return Message({"mean": found.values})

    def merged(self, at: Setting, inbox: Mapping[int, Message]) -> Vector:
        return mean([message.vectors["mean"] for message in inbox.values()])

    def take(self, at: Setting, client: Client, merged: Vector, round_: int) -> None:
        velocity = client.keeps["velocity"]
        velocity *= np.float32(self.momentum)
        velocity += merged[: at.learner.trained]
        client.weights[: at.learner.trained] -= np.float32(self.rate(at, round_)) * velocity
