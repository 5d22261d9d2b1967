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

    def begin(self, fragment: ReplicaFragment) -> None:
        """The mean needs nothing of earlier ones."""

    def pack(self, fragment: ReplicaFragment) -> torch.Tensor:
        return flat(self._tensors(fragment))

    def take(self, fragment: ReplicaFragment, mean: torch.Tensor) -> None:
        fill(self._tensors(fragment), mean)

    def _tensors(self, fragment: ReplicaFragment) -> Sequence[torch.Tensor]:
        if not self._states:
            return fragment.weights
        states = fragment.states()
        if len(states) != self._states * len(fragment.weights):
            raise ExchangeError(
                f"{self._states} of the optimizer's tensors were to be averaged for each weight, "
                f"and it holds {len(states)} for {len(fragment.weights)} weights; give as many as "
                "it holds, or 0 to keep them local"
            )
        return (*fragment.weights, *states)
