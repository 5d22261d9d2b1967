"""Clients train a sparse model whose mask moves with their data.

Bibikar et al., "Federated Dynamic Sparse Training" (2022). Weights under the mask alone are trained
and travel. Every `every` rounds, until the share `until` of them has passed, a client drops the
smallest of its weights and grows as many where its gradient is largest (from 0), and sends its mask
along. The server averages each weight over the clients whose mask has it, by their samples, and
keeps the largest, as many as before. How many move falls with a cosine from `moves` to 0. Masks are
counted as one bit a weight each time they travel; in the authors' code the readjusted share does
not fall, and masks are charged as a fraction of that.

With `every=0` the mask stays as it began.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from math import cos, pi

import numpy as np

from paceline.learn.algorithm import Memory, Served, Setting
from paceline.learn.client import Client
from paceline.learn.learner import Learner
from paceline.learn.local import Descent
from paceline.learn.masks import Mask, Quota, largest_kept, quotas, readjusted
from paceline.learn.message import Message


@dataclass(frozen=True)
class FedDst(Served):
    sparsity: float = 0.8
    moves: float = 0.1  # of a layer's weights, in the first readjustment
    every: int = 10  # rounds
    until: float = 0.75  # of all rounds
    tail: float = 0.5  # of a round's steps, behind a readjustment: what has grown must learn

    def __post_init__(self) -> None:
        super().__post_init__()
        shares = (self.moves, self.until, self.tail)
        fine = 0 <= self.sparsity < 1 and all(0 <= share <= 1 for share in shares)
        self.require(fine and self.every >= 0, "shares are from 0 to 1, a sparsity below 1")

    def readjusts(self, at: Setting, round_: int) -> bool:
        late = round_ >= self.until * at.rounds
        return bool(self.every) and round_ > 0 and round_ % self.every == 0 and not late

    def moving(self, at: Setting, round_: int) -> float:
        """The share that moves in this round."""
        return self.moves * (1 + cos(pi * round_ / max(1.0, self.until * at.rounds))) / 2

    def open(self, at: Setting) -> Memory:
        weights = at.learner.start(at.seed)
        mask = largest_kept(weights, self._quotas(at.learner))
        told = np.zeros(at.clients, np.bool_)  # which clients have answered to the mask
        return {"weights": weights * mask, "mask": mask, "told": told}

    def _quotas(self, learner: Learner) -> tuple[Quota, ...]:
        return quotas(learner.layers, learner.trained, self.sparsity)

    def hand_out(self, at: Setting, server: Memory, client: int, round_: int) -> Message:
        mask = server["mask"]
        vectors = {"values": server["weights"][mask]}
        if not server["told"][client]:
            vectors["mask"] = np.packbits(mask)
        return Message(vectors)

    def train(self, at: Setting, client: Client, told: Message, round_: int) -> Message:
        mask = self._mask(at, client, told)
        weights = np.zeros(at.learner.size, np.float32)
        weights[mask] = told.vectors["values"]
        if not self.readjusts(at, round_):
            self._masked(mask, at, round_, self.steps).run(at, client, weights)
            return Message({"values": weights[mask]})
        after = round(self.tail * self.steps)
        if after < self.steps:
            self._masked(mask, at, round_, self.steps - after).run(at, client, weights)
        mask = self._readjusted(at, client, weights, mask, round_)
        weights *= mask
        if after:
            self._masked(mask, at, round_, after).run(at, client, weights)
        return Message({"values": weights[mask], "mask": np.packbits(mask)})

    def _mask(self, at: Setting, client: Client, told: Message) -> Mask:
        """The mask that was handed out, now or the last time."""
        if "mask" in told.vectors:
            bits = np.unpackbits(told.vectors["mask"], count=at.learner.size)
            client.tools["mask"] = bits.astype(np.bool_)
        mask: Mask = client.tools["mask"]
        return mask

    def _masked(self, mask: Mask, at: Setting, round_: int, steps: int) -> Descent:
        live = mask[: at.learner.trained].astype(np.float32)
        return Descent(self, round_, lambda values, _: values * live, steps=steps)

    def _readjusted(
        self, at: Setting, client: Client, weights: np.ndarray[tuple[int], np.dtype[np.float32]],
        mask: Mask, round_: int,
    ) -> Mask:  # fmt: skip
        slope = np.zeros(at.learner.size, np.float32)
        slope[: at.learner.trained] = at.learner.gradient(weights, client.batch(self.batch)).values
        share = self.moving(at, round_)
        return readjusted(weights, slope, mask, self._quotas(at.learner), share)

    def close(self, at: Setting, server: Memory, inbox: Mapping[int, Message], round_: int) -> None:
        server["told"][list(inbox)] = True
        total, weight = (np.zeros(at.learner.size, np.float32) for _ in range(2))
        for share, message in zip(at.shares(list(inbox)), inbox.values()):
            mask = server["mask"]
            if "mask" in message.vectors:
                mask = np.unpackbits(message.vectors["mask"], count=at.learner.size) > 0
            total[mask] += share * message.vectors["values"]
            weight[mask] += share
        weights = np.divide(total, weight, out=np.zeros_like(total), where=weight > 0)
        if self.readjusts(at, round_):
            mask = largest_kept(weights, self._quotas(at.learner))
            server["told"][:] = False
            server["mask"], weights = mask, weights * mask
        server["weights"] = weights
