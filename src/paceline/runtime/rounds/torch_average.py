"""Local SGD: weights become their mean, and the optimizer's tensors too where that is asked for."""

from collections.abc import Sequence

import torch

from paceline.runtime.exchange import ExchangeError
from paceline.runtime.rounds.merge import Merge, ReplicaFragment
from paceline.runtime.rounds.torch_flat import fill, flat


class Average(Merge):
    """`states`: how many of the optimizer's tensors each weight has, or 0 to leave them alone."""

    def __init__(self, states: int) -> None:
        self._states = states

    def begin(self, part: ReplicaFragment) -> None:
        """The mean needs nothing of earlier ones."""

    def pack(self, part: ReplicaFragment) -> torch.Tensor:
        return flat(self._tensors(part))

    def take(self, part: ReplicaFragment, mean: torch.Tensor) -> None:
        fill(self._tensors(part), mean)

    def _tensors(self, part: ReplicaFragment) -> Sequence[torch.Tensor]:
        if not self._states:
            return part.weights
        states = part.states()
        if len(states) != self._states * len(part.weights):
            raise ExchangeError(
                f"{self._states} of the optimizer's tensors were to be averaged for each weight, "
                f"and it holds {len(states)} for {len(part.weights)} weights; give as many as it "
                "holds, or 0 to keep them local"
            )
        return (*part.weights, *states)
