"""`Job`: a recorded data-parallel step taken apart: each worker's work, and what it waits for.

A worker's step is a row of beats on its training thread: stretches of work, gradients that become
ready, calls to communicate, waits for them. Lengths of work are medians over the recorded steps.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from paceline.cost.errors import CostError
from paceline.graph import NONE, Collective, DepKind, DType, Graph, LaneKind, OpKind, Phase
from paceline.graph.graph import Int64


class RetargetError(CostError):
    """A recording cannot be carried over to what was asked."""


class BeatKind(IntEnum):
    WORK = 0  # the thread computes; `which` is the Phase
    GRADIENT = 1  # parameter `which` has its gradient
    CALL = 2  # call `which` is handed to the communication library
    WAIT = 3  # the thread waits for call `which`


@dataclass(frozen=True)
class Beat:
    kind: BeatKind
    which: int
    dur_ns: int = 0
    spread: float = 0.0  # half of p10 to p90 over the recorded steps, as a share


@dataclass(frozen=True)
class Call:
    """One communication of a step, the same on all workers."""

    collective: Collective
    size_bytes: int
    dtype: DType
    bucket: int = NONE  # of `Job.buckets`, where it reduces gradients


@dataclass(frozen=True)
class Job:
    """What every step does. Workers of the recording come in rank order."""

    workers: tuple[tuple[Beat, ...], ...]
    calls: tuple[Call, ...]
    parameters: tuple[tuple[str, int], ...]  # name and bytes of its gradient
    buckets: tuple[tuple[int, ...], ...]  # parameters of each gradient bucket, in call order

    @property
    def ready_order(self) -> tuple[int, ...]:
        """Parameters as their gradients become ready on the first worker."""
        return tuple(b.which for b in self.workers[0] if b.kind is BeatKind.GRADIENT)


def read_job(graph: Graph) -> Job:
    """Take a recorded graph apart; says why where it is no plain data-parallel job."""
    _require_data_parallel(graph)
    threads = [_Thread(graph, rank) for rank in graph.ranks]
    shape = _common_shape(threads)
    calls = _calls(graph, threads[0], shape)
    parameters = tuple((str(n), int(b)) for n, b in graph.meta.get("parameters", ()))
    return Job(
        workers=tuple(_median_beats(thread, shape) for thread in threads),
        calls=calls,
        parameters=parameters,
        buckets=_buckets(graph, parameters, calls),
    )


def _require_data_parallel(graph: Graph) -> None:
    used = sorted(set(graph.ops.group[graph.ops.kind == OpKind.COLLECTIVE].tolist()) - {NONE})
    partial = [graph.groups[g] for g in used if len(graph.groups[g].ranks) < len(graph.ranks)]
    if partial:
        raise RetargetError(
            f"the recording has group {partial[0].name} over ranks {list(partial[0].ranks)} of "
            f"{len(graph.ranks)}: it is more than data-parallel, so workers cannot be added by "
            "repeating them. Links and devices can be changed; for other degrees describe the "
            "model (paceline describe)."
        )
    if np.isin(graph.ops.kind, (OpKind.SEND, OpKind.RECV)).any():
        raise RetargetError(
            "the recording sends point to point (a pipeline), so workers cannot be added by "
            "repeating them. Links and devices can be changed."
        )
    if any(graph.lanes.kind == LaneKind.STREAM):
        raise RetargetError(
            "the recording has device streams; taking it apart needs a job whose work is on CPU "
            "threads. Links and devices can be changed."
        )


@dataclass(frozen=True)
class _Cut:
    """Where a thread's step is divided, and the op before which (WAIT) or after which it is."""

    op: int
    kind: BeatKind
    which: int


Shape = tuple[tuple[BeatKind, int], ...]


class _Thread:
    """The training thread of one rank: its ops, and its cuts step by step."""

    def __init__(self, graph: Graph, rank: int) -> None:
        self.graph = graph
        self.rank = rank
        ops = graph.ops
        on_threads = (ops.rank == rank) & (graph.lanes.kind[ops.lane] == LaneKind.THREAD)
        if not on_threads.any():
            raise RetargetError(f"rank {rank} has no thread in this recording; record it again")
        self.lane = int(np.bincount(ops.lane[on_threads]).argmax())
        self.ops: Int64 = np.flatnonzero(ops.lane == self.lane)
        self.steps = sorted(set(ops.step[self.ops].tolist()) - {NONE})
        self.cuts = {step: self._cuts_of(step) for step in self.steps}

    def _cuts_of(self, step: int) -> list[_Cut]:
        graph, numbers = self.graph, self._parameter_numbers
        call_of, waits = self._calls_of(step)
        found = []
        for op in self.ops[graph.ops.step[self.ops] == step].tolist():
            tensor = int(graph.ops.tensor[op])
            if op in waits:
                found += [_Cut(op, BeatKind.WAIT, call) for call in waits[op]]
            if tensor != NONE and tensor in numbers:
                found.append(_Cut(op, BeatKind.GRADIENT, numbers[tensor]))
            if op in call_of:
                found += [_Cut(op, BeatKind.CALL, call) for call in call_of[op]]
        return found

    @property
    def _parameter_numbers(self) -> dict[int, int]:
        names = {text: i for i, text in enumerate(self.graph.names)}
        listed = self.graph.meta.get("parameters", ())
        return {names[p[0]]: i for i, p in enumerate(listed) if p[0] in names}

    def _calls_of(self, step: int) -> tuple[dict[int, list[int]], dict[int, list[int]]]:
        """Ops that hand calls over, and ops that wait for them; calls count from 0 in a step."""
        graph = self.graph
        handed: dict[int, list[int]] = {}
        waited: dict[int, list[int]] = {}
        for number, op in enumerate(self.calls(step)):
            begin, end = graph.deps.ptr[op], graph.deps.ptr[op + 1]
            launched = graph.deps.kind[begin:end] == DepKind.LAUNCH
            for src in graph.deps.src[begin:end][launched].tolist():
                handed.setdefault(src, []).append(number)
            for waiter in self._waiters(op):
                waited.setdefault(waiter, []).append(number)
        return handed, waited

    def calls(self, step: int) -> list[int]:
        """The rank's collectives of a step, in id order."""
        ops = self.graph.ops
        mine = (ops.rank == self.rank) & (ops.step == step) & (ops.kind == OpKind.COLLECTIVE)
        return [int(op) for op in np.flatnonzero(mine)]

    def _waiters(self, op: int) -> list[int]:
        """Ops of the training thread that wait for a call; the first is where it blocks."""
        owner, src = _edges(self.graph)
        after = [int(o) for o in owner[src == op] if self.graph.ops.lane[o] == self.lane]
        return after[:1]

    def stretches(self, step: int, cuts: list[_Cut]) -> Iterator[tuple[int, int]]:
        """(first, past last) positions in `ops` between cuts; one more than there are cuts."""
        mine = np.flatnonzero(self.graph.ops.step[self.ops] == step)
        begin, end = int(mine[0]), int(mine[-1]) + 1
        for cut in cuts:
            at = int(np.searchsorted(self.ops, cut.op)) + (cut.kind is not BeatKind.WAIT)
            at = max(begin, at)
            yield begin, at
            begin = at
        yield begin, end


def _edges(graph: Graph) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    return np.repeat(np.arange(len(graph)), np.diff(graph.deps.ptr)), graph.deps.src


def _common_shape(threads: Sequence[_Thread]) -> Shape:
    """The row of cuts that most recorded steps have; gradients may be missing, calls may not."""
    shapes = Counter(
        tuple((cut.kind, cut.which) for cut in thread.cuts[step])
        for thread in threads
        for step in thread.steps
    )
    (shape, times), total = shapes.most_common(1)[0], sum(shapes.values())
    missing = [t.rank for t in threads if not any(_shape(t, s) == shape for s in t.steps)]
    if 2 * times <= total or missing:
        raise RetargetError(
            f"the recorded steps differ: only {times} of {total} communicate in the same order"
            + (f", none of rank {missing[0]}" if missing else "")
            + ". Record steady steps of a job whose steps are alike."
        )
    return shape


def _shape(thread: _Thread, step: int) -> Shape:
    return tuple((cut.kind, cut.which) for cut in thread.cuts[step])


def _median_beats(thread: _Thread, shape: Shape) -> tuple[Beat, ...]:
    """The thread's step: its cuts, and between them the work of each phase."""
    steps = [step for step in thread.steps if _shape(thread, step) == shape]
    whole = len(Phase)
    table = np.zeros((len(steps), len(shape) + 1, whole), np.float64)
    dur, phase = thread.graph.ops.dur_ns, thread.graph.ops.phase
    for row, step in enumerate(steps):
        for column, (begin, end) in enumerate(thread.stretches(step, thread.cuts[step])):
            mine = thread.ops[begin:end]
            table[row, column] = np.bincount(phase[mine], dur[mine], whole)[:whole]
    beats: list[Beat] = []
    for column in range(len(shape) + 1):
        beats += _work(table[:, column])
        if column < len(shape):
            beats.append(Beat(*shape[column]))
    return tuple(beats)


def _work(samples: NDArray[np.float64]) -> list[Beat]:
    """One beat of work for each phase that takes time in most steps, in the phases' order."""
    middle = np.median(samples, axis=0)
    low, high = np.percentile(samples, [10, 90], axis=0)
    return [
        Beat(BeatKind.WORK, p, round(middle[p]), float((high[p] - low[p]) / 2 / middle[p]))
        for p in range(len(Phase))
        if middle[p] >= 1
    ]


def _calls(graph: Graph, thread: _Thread, shape: Shape) -> tuple[Call, ...]:
    step = next(s for s in thread.steps if _shape(thread, s) == shape)
    gradients = {which for kind, which in shape if kind is BeatKind.GRADIENT}
    parameters = graph.meta.get("parameters", ())
    sizes = [sum(_bytes_of(parameters, bucket)) for bucket in graph.meta.get("buckets", ())]
    found: list[Call] = []
    used = 0
    for op in thread.calls(step):
        collective, size = Collective(graph.ops.collective[op]), int(graph.ops.size_bytes[op])
        reduces = collective is Collective.ALL_REDUCE and used < len(sizes) and bool(gradients)
        bucket = used if reduces and size == sizes[used] else NONE
        used += bucket != NONE
        found.append(Call(collective, size, DType(graph.ops.dtype[op]), bucket))
    return tuple(found)


def _bytes_of(parameters: Sequence[Sequence[object]], bucket: Sequence[str]) -> Iterator[int]:
    sizes = {str(p[0]): int(str(p[1])) for p in parameters}
    return (sizes[name] for name in bucket)


def _buckets(
    graph: Graph, parameters: tuple[tuple[str, int], ...], calls: tuple[Call, ...]
) -> tuple[tuple[int, ...], ...]:
    """Buckets whose call was found, as parameter numbers."""
    number = {name: i for i, (name, _) in enumerate(parameters)}
    seen = {call.bucket for call in calls if call.bucket != NONE}
    listed = graph.meta.get("buckets", ())
    return tuple(tuple(number[n] for n in b) for i, b in enumerate(listed) if i in seen)
