"""Bytes of live tensors: every storage that is made while counting, until it is freed.

Counted at torch's dispatcher, below autograd, so that what the backward pass keeps is seen too.
This slows each op by tens of microseconds: count in one run, time in another.
"""

import weakref
from collections.abc import Callable
from types import TracebackType
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_iter


class LiveBytes:
    """`with LiveBytes() as live: ...; live.bytes` says what is alive of what was made inside."""

    def __init__(self) -> None:
        self.bytes = 0
        self._alive: dict[int, Any] = {}  # weak references by storage
        self._mode = _counting(self._saw)

    def __enter__(self) -> "LiveBytes":
        self._mode.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._mode.__exit__(kind, error, trace)

    def _saw(self, given: Any, made: Any) -> None:
        """A view of something made before counting began is not new."""
        old = {t.untyped_storage()._cdata for t in _tensors(given)}
        for tensor in _tensors(made):
            storage = tensor.untyped_storage()
            if storage._cdata not in old and storage._cdata not in self._alive:
                self._count(storage)

    def _count(self, storage: torch.UntypedStorage) -> None:
        key, size = storage._cdata, storage.nbytes()
        self.bytes += size

        def freed(_: Any) -> None:
            self.bytes -= size
            del self._alive[key]

        self._alive[key] = weakref.ref(storage, freed)


def _tensors(tree: Any) -> list[torch.Tensor]:
    return [leaf for leaf in tree_iter(tree) if isinstance(leaf, torch.Tensor)]


def _counting(saw: Callable[[Any, Any], None]) -> Any:
    """A dispatch mode that shows every op's arguments and results to `saw`."""

    class Mode(TorchDispatchMode):
        def __torch_dispatch__(
            self, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            made = func(*args, **(kwargs or {}))
            saw((args, kwargs), made)
            return made

    return Mode()
