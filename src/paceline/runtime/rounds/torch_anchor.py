"""Overlap Local-SGD: ranks are pulled back to an anchor that follows their mean with momentum."""

import torch

from paceline.runtime.rounds.merge import Merge, ReplicaFragment
from paceline.runtime.rounds.torch_flat import blend, flat


class Anchor(Merge):
    """Where the ranks meet, and how fast it moves; of each part."""

    def __init__(self, pullback: float, momentum: float) -> None:
        self._pullback, self._momentum = pullback, momentum
        self._place: dict[int, torch.Tensor] = {}
        self._speed: dict[int, torch.Tensor] = {}

    def begin(self, part: ReplicaFragment) -> None:
        self._place[part.number] = flat(part.weights)
        self._speed[part.number] = torch.zeros_like(self._place[part.number])

    def pack(self, part: ReplicaFragment) -> torch.Tensor:
        return flat(part.weights)

    def take(self, part: ReplicaFragment, mean: torch.Tensor) -> None:
        place, speed = self._place[part.number], self._speed[part.number]
        speed.mul_(self._momentum).add_(mean.sub_(place))
        place.add_(speed)
        blend(part.weights, place, self._pullback)
