"""Communication as a rank issues it: process-group calls, waits, backward passes, batches.

Calls made from Python pass through thin wrappers; what C++ issues itself (DDP's buckets,
functional collectives) is read from torch's flight recorder, which numbers every collective.
"""

import threading
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist

from paceline.record.sidecar import Backward, Collective, Data, Record, Wait
from paceline.record.torch_flight import Flight, flights
from paceline.record.torch_patch import Patches

_MESSAGES = ("send", "recv", "recv_anysource")
_COLLECTIVES = (
    "allreduce allreduce_coalesced reduce broadcast allgather _allgather_base all_gather_single "
    "allgather_coalesced allgather_into_tensor_coalesced all_gather_single_coalesced gather "
    "scatter reduce_scatter _reduce_scatter_base reduce_scatter_single "
    "reduce_scatter_tensor_coalesced reduce_scatter_single_coalesced alltoall alltoall_base "
    "all_to_all_single barrier"
).split()


@dataclass(slots=True)
class Call:
    """One call of a process group's method from Python."""

    name: str
    begin_ns: int
    end_ns: int
    thread: int
    work: Any
    group: Any
    tensor: Any = None
    peer: int = -1
    tag: int = 0
    order: int = -1


class CommunicationWatch:
    """Wrappers that are in place between `install` and `remove`."""

    def __init__(self, write: Callable[[Record], None]) -> None:
        self._write = write
        self._patches = Patches()
        self._calls: list[Call] = []
        self._waits: list[tuple[str, int, int, int, Any]] = []
        self._backwards: list[tuple[int, int, int]] = []
        self._data: list[tuple[int, int, int]] = []
        self._since = 0

    def install(self) -> None:
        self._since = time.time_ns()
        if dist.is_available():
            for name in (*_COLLECTIVES, *_MESSAGES):
                if hasattr(dist.ProcessGroup, name):
                    self._patches.wrap(dist.ProcessGroup, name, self._called(name))
            self._patches.wrap(dist.Work, "wait", self._waited("work"))
        self._patches.wrap(torch.futures.Future, "wait", self._waited("future"))
        self._patches.wrap(torch.autograd, "backward", self._timed(self._backwards))
        loader = torch.utils.data.dataloader._BaseDataLoaderIter
        self._patches.wrap(loader, "__next__", self._timed(self._data))

    def remove(self) -> None:
        self._patches.undo()

    def clear(self) -> None:
        """Forget what the settling step did."""
        self._since = time.time_ns()
        for seen in (self._calls, self._waits, self._backwards, self._data):
            seen.clear()

    def flush(self) -> int:
        """Write the passes and batches of the step that ended; returns its backward passes."""
        for thread, begin, end in self._data:
            self._write(Data(thread=thread, begin_ns=begin, end_ns=end))
        for thread, begin, end in self._backwards:
            self._write(Backward(thread=thread, begin_ns=begin, end_ns=end))
        passes = len(self._backwards)
        self._data.clear()
        self._backwards.clear()
        return max(1, passes)

    def collectives(self, until_ns: int) -> Iterator[Record]:
        """All communication between `clear` and `until_ns`, in issue order, then the waits."""
        messages = [call for call in self._calls if call.name in _MESSAGES]
        calls = [call for call in self._calls if call.name not in _MESSAGES]
        seen = [f for f in flights() if self._since <= f.created_ns <= until_ns]
        issued: list[Flight | Call] = [*seen, *messages]
        sequences: dict[tuple[str, str, int], int] = {}
        for order, item in enumerate(sorted(issued, key=_issued_at)):
            if isinstance(item, Flight):
                yield _collective(order, item, _caller(item, calls, order))
            else:
                item.order = order
                key = (item.group.group_name, item.name, item.peer)
                sequences[key] = sequences.get(key, -1) + 1
                yield _message(order, item, sequences[key])
        order_of = {id(call.work): call.order for call in self._calls}
        for kind, thread, begin, end, work in self._waits:
            order = order_of.get(id(work), -1)
            yield Wait(kind=kind, thread=thread, begin_ns=begin, end_ns=end, order=order)

    def _called(self, name: str) -> Callable[[Any], Any]:
        calls, message = self._calls, name in _MESSAGES

        def wrapped(original: Any) -> Any:
            def call(group: Any, *args: Any, **kwargs: Any) -> Any:
                begin = time.time_ns()
                work = original(group, *args, **kwargs)
                done = Call(name, begin, time.time_ns(), threading.get_native_id(), work, group)
                if message:
                    done.tensor = args[0][0]
                    done.peer, done.tag = (args[1], args[2]) if len(args) > 2 else (-1, args[-1])
                calls.append(done)
                return work

            return call

        return wrapped

    def _waited(self, kind: str) -> Callable[[Any], Any]:
        waits = self._waits

        def wrapped(original: Any) -> Any:
            def wait(work: Any, *args: Any, **kwargs: Any) -> Any:
                begin = time.time_ns()
                result = original(work, *args, **kwargs)
                waits.append((kind, threading.get_native_id(), begin, time.time_ns(), work))
                return result

            return wait

        return wrapped

    def _timed(self, into: list[tuple[int, int, int]]) -> Callable[[Any], Any]:
        def wrapped(original: Any) -> Any:
            def call(*args: Any, **kwargs: Any) -> Any:
                begin = time.time_ns()
                try:
                    return original(*args, **kwargs)
                finally:
                    into.append((threading.get_native_id(), begin, time.time_ns()))

            return call

        return wrapped


def _issued_at(item: Flight | Call) -> int:
    return item.created_ns if isinstance(item, Flight) else item.begin_ns


def _caller(flight: Flight, calls: Iterable[Call], order: int) -> Call | None:
    """The Python call inside which a collective was issued; its first collective names it."""
    inside = [c for c in calls if c.begin_ns <= flight.created_ns <= c.end_ns]
    if not inside:
        return None
    call = max(inside, key=lambda c: c.begin_ns)
    if call.order < 0:
        call.order = order
    return call


def _collective(order: int, flight: Flight, call: Call | None) -> Collective:
    return Collective(
        order=order,
        group=flight.group,
        sequence=flight.sequence,
        op=flight.op,
        executed=flight.executed,
        size_bytes=flight.size_bytes,
        output_bytes=flight.output_bytes,
        dtype=flight.dtype,
        thread=call.thread if call else 0,
        enqueue_ns=flight.created_ns,
        enqueue_end_ns=call.end_ns if call else 0,
    )


def _message(order: int, call: Call, sequence: int) -> Collective:
    size = call.tensor.numel() * call.tensor.element_size()
    ranks = dist.get_process_group_ranks(call.group)
    name = "recv" if call.name.startswith("recv") else "send"
    return Collective(
        order=order,
        group=call.group.group_name,
        sequence=sequence,
        op=name,
        executed=name,
        size_bytes=size,
        output_bytes=size,
        dtype=str(call.tensor.dtype).removeprefix("torch."),
        peer=ranks[call.peer] if call.peer >= 0 else -1,
        tag=call.tag,
        thread=call.thread,
        enqueue_ns=call.begin_ns,
        enqueue_end_ns=call.end_ns,
    )
