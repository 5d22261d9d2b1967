"""Batch norms of a live model whose result a ReLU alone reads.

The first forward pass is only watched; later ones run in a mode that is told the turns of such
norms among all batch norms that the pass calls.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import torch
from torch.nn import functional
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_leaves

from paceline.errors import PacelineError
from paceline.runtime.torch_forward import forward_as

RELUS = (functional.relu, torch.relu, torch.Tensor.relu)
_NORMS = (torch.nn.BatchNorm1d, torch.nn.BatchNorm2d, torch.nn.BatchNorm3d)


class PairError(PacelineError):
    """A model without batch norms that a ReLU could be joined with."""


def other_way(strategy: str) -> PairError:
    return PairError(
        "a batch norm's result went to a ReLU alone in the model's first forward pass, and goes "
        f"elsewhere in a later one; leave {strategy} out of the plan"
    )


def holds_tensors(result: Any) -> bool:
    return any(isinstance(value, torch.Tensor) for value in tree_leaves(result))


@contextmanager
def pairs_in(model: Any, mode: Callable[[frozenset[int]], Any], strategy: str) -> Iterator[None]:
    """The model's forward passes in the mode, but for the first of those that train, and the first
    of the others."""
    if not any(isinstance(module, _NORMS) for module in model.modules()):
        raise PairError(
            f"the model has no batch norm whose result a ReLU could write over; leave {strategy} "
            "out of the plan"
        )
    seen: dict[bool, frozenset[int]] = {}  # by whether the model trains

    def wrapped(forward: Callable[..., Any]) -> Callable[..., Any]:
        def run(*given: Any, **named: Any) -> Any:
            if model.training in seen:
                entered: AbstractContextManager[Any] = mode(seen[model.training])
                with entered:
                    return forward(*given, **named)
            with _Watching() as watch:
                results = forward(*given, **named)
            seen[model.training] = watch.alone(results)
            return results

        return run

    with forward_as(model, wrapped):
        yield


class _Watching(TorchFunctionMode):  # type: ignore[misc]
    """Which results of batch norms only a ReLU reads, by their turn."""

    def __init__(self) -> None:
        super().__init__()
        self._made: list[Any] = []  # kept, so that no other tensor takes their place
        self._reads: Counter[int] = Counter()
        self._by_relu: set[int] = set()

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        for value in tree_leaves((args, kwargs)):
            self._reads[id(value)] += isinstance(value, torch.Tensor)
        if func in RELUS:
            self._by_relu.add(id(args[0]))
        result = func(*args, **(kwargs or {}))
        if func is functional.batch_norm:
            self._made.append(result)
        return result

    def alone(self, results: Any) -> frozenset[int]:
        given = {id(value) for value in tree_leaves(results)}
        return frozenset(
            turn
            for turn, made in enumerate(self._made)
            if self._reads[id(made)] == 1 and id(made) in self._by_relu and id(made) not in given
        )
