"""Local SGD: clients train alone for some steps, then all take the mean of their weights.

Stich, "Local SGD Converges Fast and Communicates Little" (2019). A client's momentum goes on from
round to round, as its optimizer's does; so with one step a round it is synchronous SGD.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from paceline.learn.algorithm import Meeting, Outgoing, Peers, Setting, mean
from paceline.learn.client import Client
from paceline.learn.local import Descent
from paceline.learn.message import Message
from paceline.learn.samples import Vector


@dataclass(frozen=True)
class LocalSgd(Peers):
    @property
    def meeting(self) -> Meeting:
        return Meeting.MEAN

    def begin(self, at: Setting, client: Client) -> None:
        super().begin(at, client)
        client.keeps["velocity"] = np.zeros(at.learner.trained, np.float32)

    def train(self, at: Setting, client: Client, round_: int) -> Outgoing:
        velocity = client.keeps["velocity"]
        Descent(self, round_, velocity=velocity).run(at, client, client.weights)
        return Message({"mean": client.weights})

    def merged(self, at: Setting, inbox: Mapping[int, Message]) -> Vector:
        return mean([message.vectors["mean"] for message in inbox.values()])

    def take(self, at: Setting, client: Client, merged: Vector, round_: int) -> None:
        client.weights = merged.copy()
