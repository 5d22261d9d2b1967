"""DiLoCo: what the ranks' steps did to the weights is a gradient for an outer optimizer."""

from dataclasses import dataclass

import torch

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

    def begin(self, part: ReplicaFragment) -> None:
        self._agreed[part.number] = flat(part.weights)
        self._momentum[part.number] = torch.zeros_like(self._agreed[part.number])

    def pack(self, part: ReplicaFragment) -> torch.Tensor:
        return flat(part.weights).neg_().add_(self._agreed[part.number])

    def take(self, part: ReplicaFragment, mean: torch.Tensor) -> None:
        agreed, momentum = self._agreed[part.number], self._momentum[part.number]
        momentum.mul_(self._how.momentum).add_(mean)
        agreed.sub_(mean.add_(momentum, alpha=self._how.momentum), alpha=self._how.lr)
        if self._how.mixing:
            blend(part.weights, agreed, 1.0 - self._how.mixing)
        else:
            fill(part.weights, agreed)
