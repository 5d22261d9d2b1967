"""Clients train alone from the server's weights, and the server takes the mean of theirs.

McMahan et al., "Communication-Efficient Learning of Deep Networks from Decentralized Data" (2017).
With `server_momentum`, the mean of the clients' changes is a step of SGD with momentum: Hsu et al.,
"Measuring the Effects of Non-Identical Data Distribution for Federated Visual Classification"
(2019): v = m v + mean change, weights += server_lr v.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from paceline.learn.algorithm import Memory, Served, Setting, mean
from paceline.learn.client import Client
from paceline.learn.local import Descent
from paceline.learn.message import Message
from paceline.learn.samples import Vector


@dataclass(frozen=True)
class FedAvg(Served):
    server_momentum: float = 0.0
    server_lr: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        fine = 0 <= self.server_momentum < 1 and self.server_lr > 0
        self.require(fine, "server_momentum is below 1, server_lr above 0")

    def open(self, at: Setting) -> Memory:
        start = at.learner.start(at.seed)
        return {"weights": start, "velocity": np.zeros_like(start)}

    def hand_out(self, at: Setting, server: Memory, client: int, round_: int) -> Message:
        return Message({"weights": server["weights"]})

    def train(self, at: Setting, client: Client, told: Message, round_: int) -> Message:
        weights = told.vectors["weights"].copy()
        self.descent(told.vectors["weights"][: at.learner.trained], round_).run(at, client, weights)
        return Message({"weights": weights})

    def descent(self, begun: Vector, round_: int) -> Descent:
        """How a client steps from the weights that it was handed."""
        return Descent(self, round_)

    def close(self, at: Setting, server: Memory, inbox: Mapping[int, Message], round_: int) -> None:
        came = [message.vectors["weights"] for message in inbox.values()]
        met = mean(came, at.shares(list(inbox)))
        if not self.server_momentum and self.server_lr == 1:
            server["weights"] = met
            return
        velocity, trained = server["velocity"], at.learner.trained
        velocity *= np.float32(self.server_momentum)
        velocity += met - server["weights"]
        moved = server["weights"] + np.float32(self.server_lr) * velocity
        moved[trained:] = met[trained:]  # statistics have no momentum: a variance stays above 0
        server["weights"] = moved
