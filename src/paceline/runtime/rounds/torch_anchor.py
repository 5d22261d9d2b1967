"""Overlap Local-SGD: ranks are pulled back to an anchor that follows their mean with momentum."""

import torch

from paceline.runtime.codecs.torch_blocks import blocks, room
from paceline.runtime.rounds.merge import Merge, ReplicaFragment
from paceline.runtime.rounds.torch_flat import blend, flat


class Anchor(Merge):
    """Where the ranks meet, and how fast it moves; of each part."""

    def __init__(self, pullback: float, momentum: float) -> None:
        self._pullback, self._momentum = pullback, momentum
        self._place: dict[int, torch.Tensor] = {}
        self._speed: dict[int, torch.Tensor] = {}

    def begin(self, fragment: ReplicaFragment) -> None:
        self._place[fragment.number] = flat(fragment.weights)
        self._speed[fragment.number] = torch.zeros_like(self._place[fragment.number])

    def pack(self, fragment: ReplicaFragment) -> torch.Tensor:
        return flat(fragment.weights)

    def take(self, fragment: ReplicaFragment, mean: torch.Tensor) -> None:
        place, speed = self._place[fragment.number], self._speed[fragment.number]
        way = room(mean)
        for came, at, pace in blocks(mean, place, speed):
            pace.mul_(self._momentum).add_(torch.sub(came, at, out=way[: came.numel()]))
            at.add_(pace)
        blend(fragment.weights, place, self._pullback)
