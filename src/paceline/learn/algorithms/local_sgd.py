"""Local SGD: clients train alone for some steps, then all take the mean of their weights.

Stich, "Local SGD Converges Fast and Communicates Little" (2019). Without a server it is FedAvg in
which every client takes part. Momentum begins anew in each round.
"""

from collections.abc import Mapping
from dataclasses import dataclass

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

    def train(self, at: Setting, client: Client, round_: int) -> Outgoing:
        Descent(self, round_).run(at, client, client.weights)
        return Message({"mean": client.weights})

    def merged(self, at: Setting, inbox: Mapping[int, Message]) -> Vector:
        return mean([message.vectors["mean"] for message in inbox.values()])

    def take(self, at: Setting, client: Client, merged: Vector, round_: int) -> None:
        client.weights = merged.copy()
