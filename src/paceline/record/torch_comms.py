"""Communication as a rank issues it: process-group calls, waits, backward passes, batches.

Calls made from Python pass through thin wrappers, which only note times. What C++ issues itself
(DDP's buckets, functional collectives) is in torch's flight recorder (`torch_flight`);
`torch_issued` joins the two after the recorded steps.
"""

import threading
import time
import weakref
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import torch
import torch.distributed as dist

from paceline.record.sidecar import Backward, Data, Record
from paceline.record.torch_patch import Patches

MESSAGES = ("send", "recv", "recv_anysource")
COLLECTIVES = (
    "allreduce allreduce_coalesced reduce broadcast allgather _allgather_base all_gather_single "
    "allgather_coalesced allgather_into_tensor_coalesced all_gather_single_coalesced gather "
    "scatter reduce_scatter _reduce_scatter_base reduce_scatter_single "
    "reduce_scatter_tensor_coalesced reduce_scatter_single_coalesced alltoall alltoall_base "
    "all_to_all_single barrier"
).split()
UNSEEN = -1  # number of work that nobody saw issued
BLOCKING = "_broadcast_coalesced"  # DDP's buffers: issued and awaited inside one C++ call


@dataclass(slots=True)
class Call:
    """One call from Python that issues communication."""

    name: str
    begin_ns: int
    end_ns: int
    thread: int
    work: int = UNSEEN  # its number in `Works`
    group: Any = None
    size_bytes: int = 0  # of a message
    dtype: str = ""
    peer: int = -1  # in the group's own numbering
    tag: int = 0
    stretch: int = 0  # of recorded steps, in which it was issued


@dataclass(frozen=True, slots=True)
class Waiting:
    """The host blocked on one piece of work."""

    kind: str
    thread: int
    begin_ns: int
    end_ns: int
    work: int


@dataclass(frozen=True)
class Stretch:
    """Time in which communication is watched."""

    begin_ns: int
    end_ns: int = 1 << 62


class Works:
    """Numbers for pieces of work, which are not kept: work keeps its tensors, and a job whose
    buffers are not freed runs on fresh memory at every step."""

    def __init__(self) -> None:
        self._count = 0
        self._seen: dict[int, tuple[Callable[[], Any], int]] = {}

    def issued(self, work: Any) -> int:
        """A new number."""
        if work is None:
            return UNSEEN
        self._count += 1
        self._seen[id(work)] = weakref.ref(work), self._count
        return self._count

    def number(self, work: Any) -> int:
        """The number it was issued under; UNSEEN where nobody saw it issued."""
        alive, number = self._seen.get(id(work), (_nothing, UNSEEN))
        return number if alive() is work else UNSEEN

    def clear(self) -> None:
        self._seen.clear()


def _nothing() -> None:
    return None


@dataclass(frozen=True)
class NotedEvents:
    """What the wrappers noted since the last `clear`."""

    calls: list[Call] = field(default_factory=list)
    waits: list[Waiting] = field(default_factory=list)
    backwards: list[Backward] = field(default_factory=list)
    batches: list[Data] = field(default_factory=list)

    def clear(self) -> None:
        for noted in (self.calls, self.waits, self.backwards, self.batches):
            noted.clear()


class CommunicationWatch:
    """Wrappers that are in place between `install` and `remove`."""

    def __init__(
        self, write: Callable[[Record], None], mark: Callable[[], None] = _nothing
    ) -> None:
        """`mark` is called where a phase of the step begins or ends."""
        self.noted = NotedEvents()
        self.works = Works()
        self._watched: list[Stretch] = []
        self._rests = False
        self._write, self._mark = write, mark
        self._patches = Patches()
        self._written = [0, 0]
        self._replicas: list[Any] = []

    def install(self, replicas: list[Any]) -> None:
        """Wrap torch's doors; `replicas` are the job's DistributedDataParallel modules."""
        self._replicas = replicas
        self.clear()
        wrap = self._patches.wrap
        if dist.is_available() and dist.is_initialized():
            for name in (*COLLECTIVES, *MESSAGES):
                if hasattr(dist.ProcessGroup, name):
                    wrap(dist.ProcessGroup, name, self._issuing(name))
            wrap(dist, BLOCKING, self._issuing(BLOCKING))
            wrap(dist.Work, "wait", self._waiting("work"))
        wrap(torch.futures.Future, "wait", self._waiting("future"))
        wrap(torch.autograd, "backward", self._passing)
        wrap(torch.utils.data.dataloader._BaseDataLoaderIter, "__next__", self._loading)

    def remove(self) -> None:
        self.rest()
        self._patches.undo()
        self._replicas = []

    def rest(self) -> None:
        """Let everything through unnoted until `resume`; the wrappers stay, for putting them in
        place slows the next steps."""
        if self._watched and not self._rests:
            self._watched[-1] = replace(self._watched[-1], end_ns=time.time_ns())
        self._rests = True

    def resume(self) -> None:
        self._rests = False
        self._watched.append(Stretch(time.time_ns()))

    def watched_at(self, moment_ns: int) -> bool:
        """Whether communication was watched then."""
        return any(each.begin_ns <= moment_ns <= each.end_ns for each in self._watched)

    def clear(self) -> None:
        """Forget what came before: the settling step's communication."""
        self._rests, self._watched = False, [Stretch(time.time_ns())]
        self.noted.clear()
        self.works.clear()
        self._written = [0, 0]

    def flush(self) -> int:
        """Write passes and batches of the step that ended; returns its number of passes."""
        backwards, batches = self._written
        for record in (*self.noted.backwards[backwards:], *self.noted.batches[batches:]):
            self._write(record)
        self._written = [len(self.noted.backwards), len(self.noted.batches)]
        return max(1, len(self.noted.backwards) - backwards)

    def _issuing(self, name: str) -> Callable[[Any], Any]:
        note, numbered = self.noted.calls.append, self.works.issued

        def wrapped(original: Any) -> Any:
            def call(group: Any, *args: Any, **kwargs: Any) -> Any:
                if self._rests:
                    return original(group, *args, **kwargs)
                begin = time.time_ns()
                work = original(group, *args, **kwargs)
                end = time.time_ns()
                thread = threading.get_native_id()
                done = Call(name, begin, end, thread, numbered(work), group)
                if name in MESSAGES:
                    tensor = args[0][0]
                    done.size_bytes = tensor.numel() * tensor.element_size()
                    done.dtype = str(tensor.dtype).removeprefix("torch.")
                    done.peer, done.tag = (args[1], args[2]) if len(args) > 2 else (-1, args[1])
                    done.stretch = len(self._watched) - 1
                note(done)
                return work

            return call

        return wrapped

    def _waiting(self, kind: str) -> Callable[[Any], Any]:
        note, number = self.noted.waits.append, self.works.number

        def wrapped(original: Any) -> Any:
            def wait(work: Any, *args: Any, **kwargs: Any) -> Any:
                if self._rests:
                    return original(work, *args, **kwargs)
                begin = time.time_ns()
                result = original(work, *args, **kwargs)
                end = time.time_ns()
                note(Waiting(kind, threading.get_native_id(), begin, end, number(work)))
                return result

            return wait

        return wrapped

    def _passing(self, original: Any) -> Any:
        note = self.noted.backwards.append

        def backward(*args: Any, **kwargs: Any) -> Any:
            if self._rests:
                return original(*args, **kwargs)
            synced = any(replica.require_backward_grad_sync for replica in self._replicas)
            self._mark()
            begin = time.time_ns()
            result = original(*args, **kwargs)
            end = time.time_ns()
            self._mark()
            note(
                Backward(
                    thread=threading.get_native_id(), begin_ns=begin, end_ns=end, synced=synced
                )
            )
            return result

        return backward

    def _loading(self, original: Any) -> Any:
        note = self.noted.batches.append

        def following(batches: Any) -> Any:
            if self._rests:
                return original(batches)
            self._mark()
            begin = time.time_ns()
            batch = original(batches)
            end = time.time_ns()
            self._mark()
            workers = batches._num_workers
            ahead = (batches._prefetch_factor or 0) if workers else 0
            thread = threading.get_native_id()
            note(Data(thread, begin, end, workers, ahead))
            return batch

        return following
