"""Layers whose weight is a structure: linear ones, and convolutions. Their checkpoints are dense.

`state_dict` and `load_state_dict` speak of `weight` and `bias` alone, as torch's layers do.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn


class Structure(nn.Module, ABC):  # type: ignore[misc]
    """Trained tensors that stand for a dense weight. Checkpoints do not name them."""

    @abstractmethod
    def forward(self, inputs: Tensor, *settings: Any) -> Tensor:
        """The inputs (rows of a matrix) times the transposed weight, or images under the kernel
        with stride, padding and dilation."""

    @abstractmethod
    def dense(self) -> Tensor:
        """The weight that they stand for."""

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        """The layer saves what they stand for."""

    def _load_from_state_dict(self, *_: Any) -> None:
        """The layer loads it."""


class Structured(nn.Module):  # type: ignore[misc]
    """Takes the place of a layer, whose bias it shares."""

    def __init__(self, layer: nn.Module, make: Callable[[Tensor], Structure]) -> None:
        super().__init__()
        self._make = make
        self.structure = make(layer.weight.detach())
        self.bias = layer.bias
        self.train(layer.training)

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


class StructuredLinear(Structured):
    """In place of an `nn.Linear`."""

    def forward(self, inputs: Tensor) -> Tensor:
        made: Tensor = self.structure(inputs.reshape(-1, inputs.shape[-1]))
        made = made if self.bias is None else made + self.bias
        return made.reshape(*inputs.shape[:-1], made.shape[-1])


class StructuredConv2d(Structured):
    """In place of an `nn.Conv2d` of one group."""

    def __init__(self, layer: nn.Conv2d, make: Callable[[Tensor], Structure]) -> None:
        super().__init__(layer, make)
        self._settings = (layer.stride, layer.padding, layer.dilation)

    def forward(self, inputs: Tensor) -> Tensor:
        made: Tensor = self.structure(inputs, *self._settings)
        return made if self.bias is None else made + self.bias[:, None, None]
