"""ReLUs that write over the batch norm's result that they read, in a live model.

The first forward is only watched: a result is written over in later ones where a ReLU was the one
call that read it. Batch norm's backward pass needs its input alone, so nothing is lost.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.nn import functional
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_leaves

from paceline.errors import PacelineError
from paceline.runtime.torch_forward import forward_as

RELUS = (functional.relu, torch.relu, torch.Tensor.relu)


class InPlaceError(PacelineError):
    """A model in which no ReLU can write over what it reads."""


@contextmanager
def relus_in_place(model: Any) -> Iterator[None]:
    norms = (torch.nn.BatchNorm1d, torch.nn.BatchNorm2d, torch.nn.BatchNorm3d)
    if not any(isinstance(module, norms) for module in model.modules()):
        raise InPlaceError(
            "the model has no batch norm whose result a ReLU could write over; leave "
            "batchnorm_relu out of the plan"
        )
    seen: dict[bool, frozenset[int]] = {}  # by whether the model trains

    def wrapped(forward: Callable[..., Any]) -> Callable[..., Any]:
        def run(*given: Any, **named: Any) -> Any:
            if model.training in seen:
                with _Overwriting(seen[model.training]):
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
