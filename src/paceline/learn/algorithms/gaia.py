"""Clients send only changes that matter: those that are large against the weight that they change.

Hsieh et al., "Gaia: Geo-Distributed Machine Learning Approaching LAN Speeds" (2017). Each client
applies its own updates at once and adds them up; where |sum / weight| is above the threshold the
sum travels to all and begins again at 0 (a weight of 0 always travels). The threshold falls with
the learning rate, as in the authors' code. A client steps by its share of the rate, so that with a
threshold of 0 all updates together are synchronous SGD's.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from paceline.learn.algorithm import Meeting, Outgoing, Peers, Setting
from paceline.learn.client import Client
from paceline.learn.local import Descent
from paceline.learn.message import Message


@dataclass(frozen=True)
class Gaia(Peers):
    steps: int = 1
    threshold: float = 0.2

    @property
    def meeting(self) -> Meeting:
        return Meeting.ALL

    def __post_init__(self) -> None:
        super().__post_init__()
        self.require(self.threshold >= 0, "a threshold is 0 or more")

    def begin(self, at: Setting, client: Client) -> None:
        super().begin(at, client)
        trained = at.learner.trained
        client.keeps["velocity"] = np.zeros(trained, np.float32)
        client.keeps["waiting"] = np.zeros(trained, np.float32)

    def train(self, at: Setting, client: Client, round_: int) -> Outgoing:
        trained, waiting = at.learner.trained, client.keeps["waiting"]
        before = client.weights[:trained].copy()
        own = Descent(self, round_, velocity=client.keeps["velocity"], share=1 / at.clients)
        own.run(at, client, client.weights)
        now = client.weights[:trained]
        waiting += now - before
        bound = np.float32(self.threshold * self.rate(at, round_) / self.lr)
        held = (np.abs(waiting) <= bound * np.abs(now)) | (waiting == 0)
        places = np.flatnonzero(~held).astype(np.int32)  # what is no number travels, and is seen
        sent = waiting[places]
        waiting[places] = 0
        return Message({"places": places, "values": sent})

    def take(self, at: Setting, client: Client, merged: Mapping[int, Message], round_: int) -> None:
        for sender, message in merged.items():
            if sender != client.number:
                client.weights[message.vectors["places"]] += message.vectors["values"]
