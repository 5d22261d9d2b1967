"""Saved activations in pinned host memory: copied out and back on streams of their own."""

import weakref
from contextlib import AbstractContextManager
from typing import Any

import torch

from paceline.runtime.torch_stash import Form, stashing


def offloading(model: Any) -> AbstractContextManager[None]:
    """What the model's forward pass saves waits in host memory, until the context is left."""
    return stashing(model, Copies())


class Copies:
    """Copies in the order in which they were saved; each knows the one before it, which the
    backward pass needs next."""

    def __init__(self) -> None:
        self._out, self._back = torch.cuda.Stream(), torch.cuda.Stream()
        self._last: Any = None  # weak reference to the copy made last

    def __call__(self, flat: torch.Tensor) -> Form:
        before = self._last() if self._last is not None else None
        made = InHost(flat, self._out, self._back, before)
        self._last = weakref.ref(made)
        return made


class InHost:
    """One storage in host memory."""

    def __init__(self, flat: torch.Tensor, out: Any, back: Any, before: "InHost | None") -> None:
        self._device, self._back = flat.device, back
        self._before = weakref.ref(before) if before is not None else None
        self._host = torch.empty(flat.shape, dtype=flat.dtype, pin_memory=True)
        self._fetched: torch.Tensor | None = None
        out.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(out):
            self._host.copy_(flat, non_blocking=True)
            self._copied = out.record_event()
        flat.record_stream(out)  # the allocator gives it out again only behind the copy

    def restored(self) -> torch.Tensor:
        """The values, for ops of the current stream; the next ones are sent for."""
        self.fetch()
        fetched, self._fetched = self._fetched, None
        assert fetched is not None
        torch.cuda.current_stream().wait_event(self._arrived)
        fetched.record_stream(torch.cuda.current_stream())
        before = self._before() if self._before is not None else None
        if before is not None:
            before.fetch()
        return fetched

    def fetch(self) -> None:
        if self._fetched is None:
            with torch.cuda.stream(self._back):
                self._back.wait_event(self._copied)
                self._fetched = self._host.to(self._device, non_blocking=True)
                self._arrived = self._back.record_event()
