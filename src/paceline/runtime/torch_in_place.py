"""ReLUs that write over the batch norm's result that they read, in a live model.

Batch norm's backward pass needs its input alone, so nothing is lost.
"""

from contextlib import AbstractContextManager
from typing import Any

import torch
from torch.nn import functional
from torch.overrides import TorchFunctionMode

from paceline.runtime.torch_norm_pairs import RELUS, pairs_in


def relus_in_place(model: Any) -> AbstractContextManager[None]:
    return pairs_in(model, _Overwriting, "batchnorm_relu")


class _Overwriting(TorchFunctionMode):  # type: ignore[misc]
    """The same forward, with those ReLUs in place."""

    def __init__(self, turns: frozenset[int]) -> None:
        super().__init__()
        self._turns, self._turn, self._fresh = turns, 0, 0

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func in RELUS and id(args[0]) == self._fresh:
            return torch.relu_(args[0])
        result = func(*args, **(kwargs or {}))
        self._fresh = 0
        if func is functional.batch_norm:
            self._fresh = id(result) if self._turn in self._turns else 0
            self._turn += 1
        return result
