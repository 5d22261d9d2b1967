"""`StructuredLinear`: a linear layer whose weight is a structure; its checkpoints are dense.

`state_dict` and `load_state_dict` speak of `weight` and `bias` alone, in the order of `nn.Linear`.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn


class Structure(nn.Module, ABC):  # type: ignore[misc]
    """Trained tensors that stand for a dense weight. Checkpoints do not name them."""

    @abstractmethod
    def forward(self, inputs: Tensor) -> Tensor:
        """The inputs (rows of a matrix) times the transposed weight."""

    @abstractmethod
    def dense(self) -> Tensor:
        """The weight that they stand for."""

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        """The layer saves what they stand for."""

    def _load_from_state_dict(self, *_: Any) -> None:
        """The layer loads it."""


class StructuredLinear(nn.Module):  # type: ignore[misc]
    """Takes the place of an `nn.Linear`, whose bias it shares."""

    def __init__(self, linear: nn.Linear, make: Callable[[Tensor], Structure]) -> None:
        super().__init__()
        self._make = make
        self.structure = make(linear.weight.detach())
        self.bias = linear.bias
        self.train(linear.training)

    def forward(self, inputs: Tensor) -> Tensor:
        made: Tensor = self.structure(inputs.reshape(-1, inputs.shape[-1]))
        made = made if self.bias is None else made + self.bias
        return made.reshape(*inputs.shape[:-1], made.shape[-1])

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        destination[prefix + "weight"] = self.structure.dense().detach()
        if self.bias is not None:
            destination[prefix + "bias"] = self.bias if keep_vars else self.bias.detach()

    def _load_from_state_dict(
        self, state: Any, prefix: str, _: Any, __: bool, missing: list[str], *___: Any
    ) -> None:
        told = {name: state.get(prefix + name) for name in ("weight", "bias")}
        wanted = ("weight",) if self.bias is None else ("weight", "bias")
        missing += [prefix + name for name in wanted if told[name] is None]
        with torch.no_grad():
            if told["weight"] is not None:
                nearest = self._make(told["weight"]).parameters()
                for mine, theirs in zip(self.structure.parameters(), nearest):
                    mine.copy_(theirs)
            if told["bias"] is not None and self.bias is not None:
                self.bias.copy_(told["bias"])
