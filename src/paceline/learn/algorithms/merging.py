"""`Merging`: clients train alone and meet as the strategies of `runtime.rounds` merge.

The `Merge` of a strategy works on torch's tensors; here each sees the client's vector as one
tensor of the same memory. Momentum goes on from round to round, as an optimizer's does.
"""

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from paceline.learn.algorithm import Meeting, Outgoing, Peers, Setting, mean
from paceline.learn.client import Client
from paceline.learn.local import Descent
from paceline.learn.message import Message
from paceline.learn.samples import Vector
from paceline.runtime.rounds import Merge, ReplicaFragment


@dataclass(frozen=True)
class Merging(Peers):
    @property
    def meeting(self) -> Meeting:
        return Meeting.MEAN

    @abstractmethod
    def merge(self) -> Merge:
        """A new one, for one client."""

    def begin(self, at: Setting, client: Client) -> None:
        super().begin(at, client)
        client.keeps["velocity"] = np.zeros(at.learner.trained, np.float32)
        merge = client.tools["merge"] = self.merge()
        merge.begin(_part(client))

    def train(self, at: Setting, client: Client, round_: int) -> Outgoing:
        velocity = client.keeps["velocity"]
        Descent(self, round_, velocity=velocity).run(at, client, client.weights)
        payload: Any = client.tools["merge"].pack(_part(client))
        return Message({"mean": payload.numpy()})

    def merged(self, at: Setting, inbox: Mapping[int, Message]) -> Vector:
        return mean([message.vectors["mean"] for message in inbox.values()])

    def take(self, at: Setting, client: Client, merged: Vector, round_: int) -> None:
        import torch

        client.tools["merge"].take(_part(client), torch.from_numpy(merged.copy()))


def _part(client: Client) -> ReplicaFragment:
    """The client's vector as a tensor in the same memory."""
    import torch

    return ReplicaFragment(0, (torch.from_numpy(client.weights),), tuple)
