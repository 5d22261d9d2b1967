"""Lifetimes of imagined tensors: what each row allocates and frees, by category.

A storage that a row brings into being is alive until the last tensor on it is gone; Python tells.
"""

import weakref
from collections.abc import Callable
from typing import Any

import torch

from paceline.graph import MemoryCategory, Phase
from paceline.imagine.imagined import MemoryChange

_CREATED_IN = {
    Phase.FORWARD: MemoryCategory.ACTIVATIONS,
    Phase.BACKWARD: MemoryCategory.TEMPORARY,
    Phase.UPDATE: MemoryCategory.TEMPORARY,
}


class Lifetimes:
    """Storages alive since the recording of rows began."""

    def __init__(self, last_row: Callable[[], int]) -> None:
        self.events: list[MemoryChange] = []
        self._last_row = last_row
        self._known: dict[int, Any] = {}  # storage -> what keeps the watch on it
        self._born: dict[int, MemoryChange] = {}

    def standing(self, size_bytes: int, category: MemoryCategory) -> None:
        """Bytes held before the first row and through all of them."""
        if size_bytes:
            self.events.append(MemoryChange(0, size_bytes, category))

    def known(self, tensor: torch.Tensor) -> None:
        """A tensor that a row was given: it was there before."""
        self._watch(tensor, None)

    def made(self, tensor: torch.Tensor, row: int, phase: Phase) -> None:
        """A tensor that a row gave back: new, unless its storage is known."""
        if _key(tensor) in self._known:
            return
        category = _CREATED_IN.get(phase, MemoryCategory.OTHER)
        event = MemoryChange(row, tensor.untyped_storage().nbytes(), category)
        self.events.append(event)
        self._watch(tensor, event)

    def is_gradient(self, tensor: torch.Tensor) -> None:
        """What was taken for temporary turns out to be kept as a gradient."""
        born = self._born.get(_key(tensor))
        if born is not None:
            born.category = MemoryCategory.GRADIENTS

    def resized(self, more_bytes: int) -> None:
        """A storage changed its size: sharded training frees and fills whole weights that way."""
        row = max(0, self._last_row())
        self.events.append(MemoryChange(row, more_bytes, MemoryCategory.WEIGHTS))

    def _watch(self, tensor: torch.Tensor, event: MemoryChange | None) -> None:
        key = _key(tensor)
        if key in self._known:
            return
        storage = tensor.untyped_storage()
        self._known[key] = weakref.ref(storage, lambda _: self._gone(key))
        if event is not None:
            self._born[key] = event

    def _gone(self, key: int) -> None:
        self._known.pop(key, None)
        born = self._born.pop(key, None)
        if born is not None:
            row = max(born.row, self._last_row())
            self.events.append(MemoryChange(row, -born.delta_bytes, born.category))


def _key(tensor: torch.Tensor) -> int:
    return int(tensor.untyped_storage()._cdata)
