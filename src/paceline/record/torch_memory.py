"""Memory by category in one detail step: weights, gradients, optimizer, activations, temporary.

Activations are what autograd saves for the backward pass, known from its saved-tensor hooks.
Temporary is the most that the allocator had given out besides activations and gradients, known
from the profiler's memory events.
"""

import dataclasses
import sys
import time
import weakref
from bisect import bisect_right
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import msgspec
import torch
from torch.autograd.graph import saved_tensors_hooks

from paceline.record.sidecar import Memory, Saved
from paceline.record.torch_facts import TrainedModel

_CUDA = 1  # c10's DeviceType
Curve = list[tuple[int, int]]  # (moment, bytes from then on), in order of time


class Kept:
    """Bytes that a step keeps for later: saved by autograd, or new gradients."""

    def __init__(self) -> None:
        self.curve: Curve = [(0, 0)]
        self.activations = 0  # their peak
        self.begin = Memory(step=0)  # what the step began with
        self._saved = 0
        self._alive: dict[int, list[Any]] = {}  # storage -> how often it is saved, and its record
        self._ended: list[Saved] = []
        self._standing: set[int] = set()  # storages of the model's buffers
        self._gradients: dict[int, Any] = {}  # parameter -> its gradient before the step, if alive
        self.freed_ns: dict[int, int] = {}  # parameter -> when that was given up
        self._hooks: Any = None

    def start(self, model: TrainedModel) -> None:
        """Listen to autograd, unless compiled code runs, which would be compiled anew."""
        self._gradients = {
            index: weakref.ref(tensor.grad, self._freed(index))
            for index, tensor in enumerate(model.tensors)
            if tensor.grad is not None
        }
        models = (model, *model.beside)
        self._standing = {address_of(tensor) for each in models for tensor in each.buffers}
        self.begin = standing(model)
        if not _compiles():
            self._hooks = saved_tensors_hooks(lambda tensor: _Saved(tensor, self), _given_back)
            self._hooks.__enter__()

    def stop(self) -> None:
        if self._hooks is not None:
            self._hooks.__exit__(None, None, None)
            self._hooks = None

    def records(self) -> list[Saved]:
        """Every storage that was saved, in order of release; those still held last."""
        return [*self._ended, *(record for _, record in self._alive.values())]

    def is_standing(self, address: int) -> bool:
        """Whether it is the model's own, there before and after the step."""
        return address in self._standing

    def saved(self, storage: int, tensor: Any) -> None:
        """A tensor on the storage was saved."""
        now = time.time_ns()
        if storage in self._alive:
            self._alive[storage][0] += 1
            self._alive[storage][1].saved_ns.append(now)
            return
        record = Saved(
            address=address_of(tensor),
            size_bytes=tensor.untyped_storage().nbytes(),
            dtype=str(tensor.dtype).removeprefix("torch."),
            saved_ns=[now],
        )
        self._alive[storage] = [1, record]
        self._count(record.size_bytes)

    def released(self, storage: int) -> None:
        """A tensor on the storage was let go."""
        held = self._alive[storage]
        held[0] -= 1
        if not held[0]:
            del self._alive[storage]
            self._ended.append(msgspec.structs.replace(held[1], until_ns=time.time_ns()))
            self._count(-held[1].size_bytes)

    def _freed(self, index: int) -> Callable[[Any], None]:
        def note(_: Any) -> None:
            self.freed_ns[index] = time.time_ns()

        return note

    def _count(self, size: int) -> None:
        self._saved += size
        self.activations = max(self.activations, self._saved)
        self._keep(size)

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
        if not isinstance(base, torch.nn.Parameter) and not owner.is_standing(address_of(tensor)):
            self._storage = tensor.untyped_storage()._cdata
            owner.saved(self._storage, tensor)

    def __del__(self) -> None:
        if self._storage:
            self._owner.released(self._storage)


def _given_back(saved: _Saved) -> Any:
    return saved.tensor


def standing(model: TrainedModel) -> Memory:
    """What a step of the model begins with, but for its data. Gradients are those of the optimizer
    whose steps are the job's: others' come and go within a step."""
    models = (model, *model.beside)
    tensors = [_local(tensor) for each in models for tensor in each.tensors]
    buffers = [buffer for each in models for buffer in each.buffers]
    held = (one for each in models for one in each.optimizer.state.values())
    states = (state for one in held for state in one.values())
    return Memory(
        step=0,
        peak=False,
        device="cuda" if any(tensor.is_cuda for tensor in tensors) else "cpu",
        weights=_storage_bytes([*tensors, *map(_local, buffers)]),
        gradients=_storage_bytes([_local(t.grad) for t in model.tensors if t.grad is not None]),
        optimizer=_storage_bytes([_local(s) for s in states if isinstance(s, torch.Tensor)]),
        communication=sum(bucket.size_bytes for bucket in model.buckets if not bucket.views),
    )


def memory_of(step: int, model: TrainedModel, kept: Kept, trace: Path) -> tuple[Memory, Memory]:
    """What the detail step began with, and the peak of each category in it; `trace` is that
    step's, with memory events."""
    now = standing(model)
    peak = msgspec.structs.replace(
        now,
        step=step,
        peak=True,
        activations=kept.activations,
        temporary=_temporary(kept.curve, allocated(trace, now.device == "cuda")),
    )
    return msgspec.structs.replace(kept.begin, step=step), peak


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


def storages_of(value: Any) -> dict[int, int]:
    """Bytes by address of the tensors in a module's arguments or results, which may lead back to
    themselves."""
    found, left, seen = dict[int, int](), [value], set[int]()
    while left:
        each = left.pop()
        if isinstance(each, torch.Tensor):
            local = _local(each)
            found[address_of(local)] = local.untyped_storage().nbytes()
        elif id(each) not in seen:
            seen.add(id(each))
            left += _parts(each)
    return found


def _parts(value: Any) -> Iterable[Any]:
    """What a container holds; nothing of what is none."""
    if isinstance(value, dict):
        return tuple(value.values())
    if isinstance(value, (tuple, list)):
        return value
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return [getattr(value, field.name, None) for field in dataclasses.fields(value)]
    return ()


def address_of(tensor: Any) -> int:
    """Where the allocator put it; 0 where it has no memory."""
    try:
        return int(_local(tensor).untyped_storage().data_ptr())
    except (NotImplementedError, RuntimeError):  # sparse, or without storage
        return 0


def _storage_bytes(tensors: list[Any]) -> int:
    """Of the storages that they lie on, each once."""
    return sum({k: v for tensor in tensors for k, v in storages_of(tensor).items()}.values())


def _local(tensor: Any) -> Any:
    return tensor.to_local() if hasattr(tensor, "to_local") else tensor


def _bytes(tensor: Any) -> int:
    local = _local(tensor)
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
