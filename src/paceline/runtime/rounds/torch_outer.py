"""DiLoCo: what the ranks' steps did to the weights is a gradient for an outer optimizer."""

from dataclasses import dataclass

import torch

from paceline.runtime.codecs.torch_blocks import blocks, room
from paceline.runtime.rounds.merge import Merge, ReplicaFragment
from paceline.runtime.rounds.torch_flat import blend, fill, flat


@dataclass(frozen=True)
class OuterSgd:
    """SGD with Nesterov's momentum; `mixing` is the share of its own weights that a rank keeps."""

    lr: float
    momentum: float
    mixing: float = 0.0


class Outer(Merge):
    """The weights that all ranks agreed on last, and the outer momentum; of each part."""

    def __init__(self, how: OuterSgd) -> None:
        self._how = how
        self._agreed: dict[int, torch.Tensor] = {}
        self._momentum: dict[int, torch.Tensor] = {}

    def begin(self, fragment: ReplicaFragment) -> None:
        self._agreed[fragment.number] = flat(fragment.weights)
        self._momentum[fragment.number] = torch.zeros_like(self._agreed[fragment.number])

    def pack(self, fragment: ReplicaFragment) -> torch.Tensor:
        now = flat(fragment.weights)
        return torch.sub(self._agreed[fragment.number], now, out=now)

    def take(self, fragment: ReplicaFragment, mean: torch.Tensor) -> None:
        agreed, momentum = self._agreed[fragment.number], self._momentum[fragment.number]
        way = room(mean)
        for came, at, pace in blocks(mean, agreed, momentum):
            pace.mul_(self._how.momentum).add_(came)
            ahead = torch.add(came, pace, alpha=self._how.momentum, out=way[: came.numel()])
            at.sub_(ahead, alpha=self._how.lr)
        if self._how.mixing:
            blend(fragment.weights, agreed, 1.0 - self._how.mixing)
        else:
            fill(fragment.weights, agreed)
