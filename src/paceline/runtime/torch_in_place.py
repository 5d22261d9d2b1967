"""ReLUs that write over the batch norm's result that they read, in a live model.

Batch norm's backward pass needs its input alone, so nothing is lost.
"""

from contextlib import AbstractContextManager
from typing import Any

import torch
from torch.nn import functional
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_leaves

from paceline.runtime.torch_norm_pairs import RELUS, holds_tensors, other_way, pairs_in

_NAME = "batchnorm_relu"


def relus_in_place(model: Any) -> AbstractContextManager[None]:
    return pairs_in(model, _Overwriting, _NAME)


class _Overwriting(TorchFunctionMode):  # type: ignore[misc]
    """The same forward, with those ReLUs in place. Whoever reads the norm's result after that, as
    a model may that does not always run alike, would read the ReLU's."""

    def __init__(self, turns: frozenset[int]) -> None:
        super().__init__()
        self._turns, self._turn, self._fresh = turns, 0, 0
        self._gone: dict[int, Any] = {}  # norms' results, kept so that no other takes their place

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func in RELUS and id(args[0]) == self._fresh:
            self._gone[self._fresh], self._fresh = args[0], 0
            return torch.relu_(args[0]).view_as(args[0])
        result = func(*args, **(kwargs or {}))
        if self._gone and self._reads_what_is_gone((args, kwargs)) and holds_tensors(result):
            raise other_way(_NAME)
        self._fresh = 0
        if func is functional.batch_norm:
            self._fresh = id(result) if self._turn in self._turns else 0
            self._turn += 1
        return result

    def _reads_what_is_gone(self, given: Any) -> bool:
        return any(id(value) in self._gone for value in tree_leaves(given))
