"""The model grows: clients first train its first block with a small head, then one block more.

Wang et al., "ProgFed: Effective, Communication, and Computation Efficient Federated Learning by
Progressive Training" (2022). Every `cycle` rounds a block is added and the head behind the block
before is left; for `warmup` rounds the new block and its head are trained alone. Only what is
trained travels back, and only what the sub-model needs travels out. Everything is as FedAvg's.

In the paper a new block's head begins at random. With `inherits` it begins as the head before: of a
network whose new blocks first change nothing (residual ones that begin at 0) growing then costs no
accuracy.

Saves little where most parameters lie in the last block, and loses where early blocks alone learn
little: a small network of two convolutions and a large linear layer needed more bytes than FedAvg
for the same accuracy.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from paceline.learn.algorithm import JudgedModel, Memory, Setting, mean
from paceline.learn.algorithms.fedavg import FedAvg
from paceline.learn.client import Client
from paceline.learn.learner import TensorSpan
from paceline.learn.local import Descent
from paceline.learn.masks import Mask
from paceline.learn.message import Message
from paceline.learn.samples import Vector

_FORWARD = 1 / 3
"""Of a training step's arithmetic, what the forward pass takes."""


@dataclass(frozen=True)
class ProgFed(FedAvg):
    cycle: int = 10  # rounds from one block to the next
    warmup: int = 0  # rounds in which a new block is trained alone
    inherits: bool = False  # whether a new head begins as the one before

    def __post_init__(self) -> None:
        super().__post_init__()
        fine = self.cycle >= 1 and 0 <= self.warmup < self.cycle
        self.require(fine, "a cycle is 1 or more, and a warm-up shorter")
        self.require(not self.server_momentum, "a model that grows begins anew: no server momentum")

    def open(self, at: Setting) -> Memory:
        fine = at.learner.stages > 1
        self.require(fine, "a model of one block cannot grow; `growing` (--model) has four")
        return super().open(at)

    def notes(self, at: Setting) -> tuple[str, ...]:
        had, blocks = self.stage(at, at.rounds - 1) + 1, at.learner.stages
        if had == blocks:
            return ()
        return (
            f"the model grew to {had} of its {blocks} blocks; give more rounds or a shorter cycle",
        )

    def stage(self, at: Setting, round_: int) -> int:
        return min(at.learner.stages - 1, round_ // self.cycle)

    def warms(self, at: Setting, round_: int) -> bool:
        """Whether the newest block is trained alone."""
        first = self.cycle * self.stage(at, round_)
        return 0 < first <= round_ < first + self.warmup

    def hand_out(self, at: Setting, server: Memory, client: int, round_: int) -> Message:
        return Message({"values": server["weights"][self._there(at, round_)]})

    def train(self, at: Setting, client: Client, told: Message, round_: int) -> Message:
        weights = np.zeros(at.learner.size, np.float32)
        weights[self._there(at, round_)] = told.vectors["values"]
        moves = self._moves(at, round_)
        live = moves[: at.learner.trained].astype(np.float32)
        stage = self.stage(at, round_)
        Descent(self, round_, lambda values, _: values * live, stage=stage).run(at, client, weights)
        return Message({"values": weights[moves]})

    def close(self, at: Setting, server: Memory, inbox: Mapping[int, Message], round_: int) -> None:
        met = mean([m.vectors["values"] for m in inbox.values()], at.shares(list(inbox)))
        weights = server["weights"].copy()
        weights[self._moves(at, round_)] = met
        stage = self.stage(at, round_)
        if self.inherits and self.stage(at, round_ + 1) > stage:
            _inherit(at, weights, stage)
        server["weights"] = weights

    def model(self, at: Setting, server: Memory, round_: int) -> JudgedModel:
        return JudgedModel(server["weights"], self.stage(at, round_))

    def arithmetic(self, at: Setting, round_: int) -> float:
        stage = self.stage(at, round_)
        whole = at.learner.arithmetic(stage)
        if not self.warms(at, round_):
            return whole
        before = at.learner.arithmetic(stage - 1)
        return _FORWARD * before + (whole - before)

    def _there(self, at: Setting, round_: int) -> Mask:
        """What the sub-model has."""
        stage = self.stage(at, round_)
        return _where(
            at, lambda each: each.stage == stage or (each.stage < stage and not each.head)
        )

    def _moves(self, at: Setting, round_: int) -> Mask:
        """What is trained in this round."""
        if not self.warms(at, round_):
            return self._there(at, round_)
        stage = self.stage(at, round_)
        return _where(at, lambda each: each.stage == stage)


def _inherit(at: Setting, weights: Vector, stage: int) -> None:
    """The next stage's head becomes this one's, where they have the same shapes."""
    heads = [[each for each in at.learner.layers if each.head and each.stage == n]
             for n in (stage, stage + 1)]  # fmt: skip
    for old, new in zip(*heads):
        if old.shape == new.shape:
            weights[new.place] = weights[old.place]


def _where(at: Setting, holds: Callable[[TensorSpan], bool]) -> Mask:
    mask = np.zeros(at.learner.size, np.bool_)
    for layer in at.learner.layers:
        mask[layer.place] = holds(layer)
    return mask
