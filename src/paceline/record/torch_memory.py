"""Memory by category in one detail step: weights, gradients, optimizer, activations, temporary.

Activations are what autograd saves for the backward pass, known from its saved-tensor hooks.
Temporary is the most that the allocator had given out besides activations and gradients, known
from the profiler's memory events.
"""

import sys
import time
import weakref
from bisect import bisect_right
from pathlib import Path
from typing import Any

import msgspec
import torch
from torch.autograd.graph import saved_tensors_hooks

from paceline.record.sidecar import Memory
from paceline.record.torch_facts import Model

_CUDA = 1  # c10's DeviceType
Curve = list[tuple[int, int]]  # (moment, bytes from then on), in order of time


class Kept:
    """Bytes that a step keeps for later: saved by autograd, or new gradients."""

    def __init__(self) -> None:
        self.curve: Curve = [(0, 0)]
        self.activations = 0  # their peak
        self._saved = 0
        self._alive: dict[int, int] = {}  # storage -> how often it is saved
        self._gradients: dict[int, Any] = {}  # parameter -> its gradient before the step, if alive
        self._hooks: Any = None

    def start(self, tensors: list[Any]) -> None:
        """Listen to autograd, unless compiled code runs, which would be compiled anew."""
        self._gradients = {
            index: weakref.ref(tensor.grad)
            for index, tensor in enumerate(tensors)
            if tensor.grad is not None
        }
        if not _compiles():
            self._hooks = saved_tensors_hooks(lambda tensor: _Saved(tensor, self), _given_back)
            self._hooks.__enter__()

    def stop(self) -> None:
        if self._hooks is not None:
            self._hooks.__exit__(None, None, None)
            self._hooks = None

    def saved(self, storage: int, size: int, more: int) -> None:
        """A tensor on a storage of `size` bytes was saved (`more` 1) or let go (-1)."""
        before = self._alive.get(storage, 0)
        self._alive[storage] = before + more
        if before == 0 or before + more == 0:
            self._saved += more * size
            self.activations = max(self.activations, self._saved)
            self._keep(more * size)

    def gradient(self, index: int, tensor: Any) -> None:
        """A gradient is ready: it takes room of its own unless it was there before the step."""
        old = self._gradients.get(index)
        if old is None or old() is not tensor.grad:
            self._keep(_bytes(tensor.grad))
            self._gradients[index] = weakref.ref(tensor.grad)

    def _keep(self, size: int) -> None:
        self.curve.append((time.time_ns(), self.curve[-1][1] + size))


class _Saved:
    """One tensor kept for the backward pass."""

    def __init__(self, tensor: Any, owner: Kept) -> None:
        self.tensor = tensor
        self._owner = owner
        base = tensor._base if tensor._is_view() else tensor
        self._storage = 0
        if not isinstance(base, torch.nn.Parameter):
            storage = tensor.untyped_storage()
            self._storage, self._size = storage._cdata, storage.nbytes()
            owner.saved(self._storage, self._size, 1)

    def __del__(self) -> None:
        if self._storage:
            self._owner.saved(self._storage, self._size, -1)


def _given_back(saved: _Saved) -> Any:
    return saved.tensor


def memory_of(step: int, model: Model, kept: Kept, trace: Path) -> Memory:
    """Peak of each category in the detail step; `trace` is that step's, with memory events."""
    tensors = model.tensors
    gradients = sum(_bytes(tensor.grad) for tensor in tensors if tensor.grad is not None)
    states = (state for one in model.optimizer.state.values() for state in one.values())
    on_gpu = any(tensor.is_cuda for tensor in tensors)
    return Memory(
        step=step,
        device="cuda" if on_gpu else "cpu",
        weights=sum(_bytes(tensor) for tensor in tensors),
        gradients=gradients,
        optimizer=sum(_bytes(state) for state in states if isinstance(state, torch.Tensor)),
        activations=kept.activations,
        temporary=_temporary(kept.curve, allocated(trace, on_gpu)),
    )


def allocated(trace: Path, on_gpu: bool) -> Curve:
    """What the allocator had given out since the trace began, after each of its events."""
    found = msgspec.json.decode(trace.read_bytes(), type=_Document)
    base = found.baseTimeNanoseconds
    events = (e for e in found.traceEvents if e.name == "[memory]")
    return sorted(
        (base + round(1000 * e.ts), e.args.total)
        for e in events
        if e.args and (e.args.device_type == _CUDA) == on_gpu
    )


def _temporary(kept: Curve, total: Curve) -> int:
    """The most that was given out at one time and not kept."""
    moments = [at for at, _ in kept]
    return max((size - kept[bisect_right(moments, at) - 1][1] for at, size in total), default=0)


def _bytes(tensor: Any) -> int:
    local = tensor.to_local() if hasattr(tensor, "to_local") else tensor
    return int(local.numel() * local.element_size())


def _compiles() -> bool:
    dynamo = sys.modules.get("torch._dynamo.utils")
    return dynamo is not None and bool(dynamo.counters["frames"])


class _Args(msgspec.Struct):
    total: int = msgspec.field(name="Total Allocated", default=0)
    device_type: int = msgspec.field(name="Device Type", default=0)


class _Event(msgspec.Struct):
    name: str = ""
    ts: float = 0.0
    args: _Args | None = None


class _Document(msgspec.Struct):
    traceEvents: list[_Event]
    baseTimeNanoseconds: int = 0
