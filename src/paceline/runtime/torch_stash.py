"""What autograd keeps for the backward pass, kept in another form: packed when it is saved,
restored when it is needed.

A storage that several ops save is packed once. Weights, buffers and the batch stay as they are:
they are there anyway. What is small stays too, and so does what is no float32.
"""

import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch.autograd.graph import saved_tensors_hooks

from paceline.record.torch_memory import storages_of
from paceline.runtime.torch_forward import Forward, forward_as

LEAST_BYTES = 2048  # below that a pack takes longer to call than its bytes are worth


class Form(Protocol):
    """A storage in another form. Gone when nothing saves it any more."""

    def restored(self) -> torch.Tensor:
        """The values again, flat."""
        ...


Pack = Callable[[torch.Tensor], Form | None]
"""Another form of a flat float32 tensor; None: it stays as it is."""


@contextmanager
def stashing(model: Any, pack: Pack) -> Iterator[None]:
    """What the model's forward pass saves goes through `pack`, a flat float32 tensor at a time."""

    def wrapped(forward: Forward) -> Forward:
        def run(*given: Any, **named: Any) -> Any:
            standing = [*model.parameters(), *model.buffers(), given, named]
            stash = Stash(pack, frozenset(a for one in standing for a in storages_of(one)))
            with saved_tensors_hooks(stash.save, stash.restore):
                return forward(*given, **named)

        return run

    with forward_as(model, wrapped):
        yield


@dataclass(frozen=True)
class View:
    """A saved tensor on a packed storage."""

    form: Form
    size: tuple[int, ...]
    stride: tuple[int, ...]
    offset: int
    device: torch.device


class Stash:
    """The storages that one forward pass saved."""

    def __init__(self, pack: Pack, standing: frozenset[int]) -> None:
        self._pack, self._standing = pack, standing
        self._known: dict[int, tuple[Any, Any, int]] = {}  # storage, its form, the values' version

    def save(self, tensor: torch.Tensor) -> Any:
        if not self._takes(tensor):
            return tensor
        form = self._form(tensor)
        if form is None:
            return tensor
        at = (tuple(tensor.shape), tuple(tensor.stride()), tensor.storage_offset())
        return View(form, *at, tensor.device)

    def restore(self, saved: Any) -> Any:
        if not isinstance(saved, View):
            return saved
        return saved.form.restored().as_strided(saved.size, saved.stride, saved.offset)

    def _takes(self, tensor: torch.Tensor) -> bool:
        if tensor.dtype is not torch.float32 or tensor.layout is not torch.strided:
            return False
        storage = tensor.untyped_storage()
        return storage.nbytes() >= LEAST_BYTES and storage.data_ptr() not in self._standing

    def _form(self, tensor: torch.Tensor) -> Form | None:
        """That of its storage, which is known as long as the storage itself is there."""
        form: Form | None
        storage = tensor.untyped_storage()
        known = self._known.get(storage._cdata)
        if known is not None and known[0]() is not None and known[2] == tensor._version:
            form = known[1]()
            if form is not None:
                return form
        with torch.no_grad():
            form = self._pack(torch.empty(0, device=tensor.device).set_(storage))
        if form is None:
            return None
        self._known[storage._cdata] = (weakref.ref(storage), weakref.ref(form), tensor._version)
        return form
