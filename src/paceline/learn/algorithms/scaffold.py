"""Control variates take the drift out of local steps.

Karimireddy et al., "SCAFFOLD: Stochastic Controlled Averaging for Federated Learning" (2020), with
its option II: a step follows g - c_i + c, and behind K steps of rate r from x to y_i the client
keeps c_i = c_i - c + (x - y_i) / (K r). The server's c is the mean of all clients' c_i, whoever
took part: c += (clients in the round / all) mean change. Weights and control travel both ways.
Local steps have no momentum: the formula for c_i rests on that.
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
class Scaffold(Served):
    momentum: float = 0.0
    server_lr: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        self.require(self.momentum == 0, "its control variates rest on steps without momentum")
        self.require(self.server_lr > 0, "server_lr is above 0")

    def open(self, at: Setting) -> Memory:
        control = np.zeros(at.learner.trained, np.float32)
        return {"weights": at.learner.start(at.seed), "control": control}

    def hand_out(self, at: Setting, server: Memory, client: int, round_: int) -> Message:
        return Message({"weights": server["weights"], "control": server["control"]})

    def train(self, at: Setting, client: Client, told: Message, round_: int) -> Message:
        trained, begun, control = at.learner.trained, *self._told(told)
        own = client.keeps.get("control", np.zeros_like(control))
        weights = begun.copy()
        Descent(self, round_, lambda values, _: values - own + control).run(at, client, weights)
        length = np.float32(self.steps * self.rate(at, round_))
        still = not length  # at a rate of 0 steps lead nowhere, and tell nothing
        kept = own if still else own - control + (begun - weights)[:trained] / length
        client.keeps["control"] = kept
        return Message({"weights": weights, "change": kept - own})

    def _told(self, told: Message) -> tuple[Vector, Vector]:
        return told.vectors["weights"], told.vectors["control"]

    def close(self, at: Setting, server: Memory, inbox: Mapping[int, Message], round_: int) -> None:
        begun, trained = server["weights"], at.learner.trained
        met = mean([m.vectors["weights"] for m in inbox.values()])
        moved = begun + np.float32(self.server_lr) * (met - begun)
        moved[trained:] = met[trained:]
        change = mean([m.vectors["change"] for m in inbox.values()])
        server["weights"] = moved
        server["control"] = server["control"] + np.float32(len(inbox) / at.clients) * change
