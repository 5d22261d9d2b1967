"""About the largest of accumulated gradients travel, with momentum accumulated before that.

Lin et al., "Deep Gradient Compression" (2018): momentum correction, and masking where it is asked
for, by the codec of the strategy of that name. Over the first `warmup` rounds the share that
travels falls from a quarter to `ratio`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from paceline.learn.algorithm import Meeting, Outgoing, Peers, Setting
from paceline.learn.client import Client
from paceline.learn.message import Message
from paceline.learn.samples import Vector
from paceline.runtime.codecs import Codec, Momentum, Sharing, Sparse, Turn


@dataclass(frozen=True)
class Dgc(Peers):
    steps: int = 1
    ratio: float = 0.01
    warmup: int = 100  # rounds
    masks: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        self.require(self.steps == 1, "a round is one step")
        self.require(0 < self.ratio <= 1 and self.warmup >= 0, "a ratio is above 0, up to 1")

    @property
    def meeting(self) -> Meeting:
        return Meeting.ALL

    def begin(self, at: Setting, client: Client) -> None:
        from paceline.runtime.codecs.torch_dgc import SampledTopK
        from paceline.runtime.codecs.torch_memory import memory_of

        super().begin(at, client)
        momentum = Momentum(self.momentum, masked=self.masks)
        how = SampledTopK(self.ratio, 0.01, self.warmup)
        client.tools["codec"] = how
        client.tools["memory"] = memory_of(Codec(how, Sharing.GATHER, True, momentum), at.clients)

    def train(self, at: Setting, client: Client, round_: int) -> Outgoing:
        import torch

        found = at.learner.gradient(client.weights, client.batch(self.batch))
        gradient: Any = torch.from_numpy(found.values / np.float32(at.clients))
        how, memory, turn = client.tools["codec"], client.tools["memory"], Turn(0, round_)
        how.ratio = self.ratio  # another one where a tuner has chosen so
        corrected = memory.corrected((0,), gradient)
        payload = how.compress(corrected, turn)
        memory.sent(corrected, payload, how, turn)
        client.keeps["waiting"] = corrected.numpy()  # what was sent is out of it by now
        return Message({"payload": payload.numpy()})

    def apart(self, at: Setting, client: Client, round_: int) -> Vector:
        """As if what waits were applied, as large as it would be without other clients."""
        alone = client.weights.copy()
        rate = np.float32(self.rate(at, round_) * at.clients)
        alone[: at.learner.trained] -= rate * client.keeps["waiting"]
        return alone

    def take(self, at: Setting, client: Client, merged: Mapping[int, Message], round_: int) -> None:
        total = self._total(at, client.tools["codec"], merged, round_)
        client.weights[: at.learner.trained] -= np.float32(self.rate(at, round_)) * total

    def _total(self, at: Setting, how: Sparse, inbox: Mapping[int, Message], round_: int) -> Vector:
        import torch

        total: Any = torch.zeros(at.learner.trained)
        for message in inbox.values():
            how.add(total, torch.from_numpy(message.vectors["payload"]), Turn(0, round_))
        found: Vector = total.numpy()
        return found
