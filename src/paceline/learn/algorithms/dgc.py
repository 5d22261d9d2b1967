"""About the largest of accumulated gradients travel, with momentum accumulated before that.

Lin et al., "Deep Gradient Compression" (2018): momentum correction, and masking where it is asked
for, by the codec of the strategy of that name. Over the first `warmup` rounds the share that
travels falls from a quarter to `ratio`. With `tight` a value and its place travel in about two
bytes in place of eight, and what rounding leaves waits too.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from paceline.learn.algorithm import Meeting, Outgoing, Peers, Setting
from paceline.learn.client import Client
from paceline.learn.message import Message
from paceline.learn.samples import Vector
from paceline.learn.tight import Some, packed_tight, rounded, unpacked_tight
from paceline.runtime.codecs import Codec, Momentum, Sharing, Turn


@dataclass(frozen=True)
class Dgc(Peers):
    steps: int = 1
    ratio: float = 0.01
    warmup: int = 100  # rounds
    masks: bool = False
    tight: bool = False

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
        client.keeps["waiting"] = np.zeros(at.learner.trained, np.float32)
        momentum = Momentum(self.momentum, masked=self.masks)
        how = SampledTopK(self.ratio, 0.01, self.warmup)
        client.tools["codec"] = how
        client.tools["memory"] = memory_of(Codec(how, Sharing.GATHER, True, momentum), at.clients)

    def train(self, at: Setting, client: Client, round_: int) -> Outgoing:
        import torch

        found = at.learner.gradient(client.weights, client.batch(self.batch))
        if not np.isfinite(found.values).all():
            return Message({"values": found.values})  # to be seen: no bound stands out of it
        gradient: Any = torch.from_numpy(found.values / np.float32(at.clients))
        how, memory, turn = client.tools["codec"], client.tools["memory"], Turn(0, round_)
        how.ratio = self.ratio  # another one where a tuner has chosen so
        corrected = memory.corrected((0,), gradient)
        payload = how.compress(corrected, turn)
        message = _message(payload.numpy())
        if self.tight:
            some = rounded(_some(message))
            payload, message = torch.from_numpy(_payload(some)), packed_tight(some)
        memory.sent(corrected, payload, how, turn)
        client.keeps["waiting"] = corrected.numpy()  # what was sent is out of it by now
        return message

    def apart(self, at: Setting, client: Client, round_: int) -> Vector:
        """As if what waits were applied, as large as it would be without other clients."""
        alone = client.weights.copy()
        rate = np.float32(self.rate(at, round_) * at.clients)
        alone[: at.learner.trained] -= rate * client.keeps["waiting"]
        return alone

    def merged(self, at: Setting, inbox: Mapping[int, Message]) -> Vector:
        """The sum of what all sent."""
        total = np.zeros(at.learner.trained, np.float32)
        for message in inbox.values():
            some = _some(message) if "places" in message.vectors else unpacked_tight(message)
            total[some.places] += some.values
        return total

    def take(self, at: Setting, client: Client, merged: Vector, round_: int) -> None:
        client.weights[: at.learner.trained] -= np.float32(self.rate(at, round_)) * merged


def _message(payload: NDArray[np.int32]) -> Message:
    """Of what the codec made: places, then values."""
    places, values = np.split(payload, 2)
    return Message({"places": places, "values": values.view(np.float32)})


def _some(message: Message) -> Some:
    """Where a place comes twice in a message, its second value is 0 and is left out."""
    return Some.of(message.vectors["places"].astype(np.int64), message.vectors["values"])


def _payload(some: Some) -> NDArray[np.int32]:
    """As the codec has it."""
    return np.concatenate([some.places.astype(np.int32), some.values.view(np.int32)])
