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
from paceline.graph import (
    NONE,
    Collective,
    DepKind,
    DType,
    Graph,
    LaneKind,
    OpKind,
    Phase,
    without_core_waits,
)
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
    dur_ns: int = 0  # recorded, the median over steps


@dataclass(frozen=True)
class Job:
    """What every step does. Workers of the recording come in rank order."""

    workers: tuple[tuple[Beat, ...], ...]
    calls: tuple[Call, ...]
    parameters: tuple[tuple[str, int], ...]  # name and bytes of its gradient
    buckets: tuple[tuple[int, ...], ...]  # parameters of each gradient bucket, in call order
    plain_ns: int = 0  # a step without instruments; 0: not recorded

    @property
    def ready_order(self) -> tuple[int, ...]:
        """Parameters as their gradients become ready on the first worker."""
        return tuple(b.which for b in self.workers[0] if b.kind is BeatKind.GRADIENT)


def read_job(graph: Graph) -> Job:
    """Take a recorded graph apart; says why where it is no plain data-parallel job. What threads
    waited for a core stays behind."""
    _require_data_parallel(graph)
    graph = without_core_waits(graph)
    threads = [_Thread(graph, rank) for rank in graph.ranks]
    shape = _common_shape(threads)
    calls = _calls(graph, threads[0], shape)
    waits = _waits(threads, shape, calls)
    parameters = tuple((str(n), int(b)) for n, b in graph.meta.get("parameters", ()))
    return Job(
        workers=tuple(_median_beats(thread, shape, waits) for thread in threads),
        calls=calls,
        parameters=parameters,
        buckets=_buckets(graph, parameters, calls),
        plain_ns=int(graph.meta.get("plain_step_ns", 0)),
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
    """Where a thread's step is divided: behind an op that hands over a call or ends a gradient."""

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

    def shape(self, step: int) -> Shape:
        return tuple((cut.kind, cut.which) for cut in self.cuts[step])

    def calls(self, step: int) -> list[int]:
        """The rank's collectives of a step, in id order."""
        ops = self.graph.ops
        mine = (ops.rank == self.rank) & (ops.step == step) & (ops.kind == OpKind.COLLECTIVE)
        return [int(op) for op in np.flatnonzero(mine)]

    def waits(self, step: int) -> dict[int, int]:
        """For each call that the thread is seen to wait for, how many cuts lie before it does."""
        cut_ops = np.array([cut.op for cut in self.cuts[step]], np.int64)
        owner, src = _edges(self.graph)
        found = {}
        for number, op in enumerate(self.calls(step)):
            after = [int(o) for o in owner[src == op] if self.graph.ops.lane[o] == self.lane]
            if after:
                found[number] = int(np.searchsorted(cut_ops, after[0]))
        return found

    def work(self, step: int) -> NDArray[np.float64]:
        """Time by phase between cuts, in ns: one row more than there are cuts."""
        mine = self.ops[self.graph.ops.step[self.ops] == step]
        ends = [int(np.searchsorted(mine, cut.op, "right")) for cut in self.cuts[step]]
        dur, phase = self.graph.ops.dur_ns[mine], self.graph.ops.phase[mine]
        stretches = zip([0, *ends], [*ends, len(mine)])
        return np.array(
            [np.bincount(phase[a:b], dur[a:b], len(Phase)) for a, b in stretches], np.float64
        )

    def _cuts_of(self, step: int) -> list[_Cut]:
        graph, numbers, handed = self.graph, self._parameter_numbers, self._handed(step)
        found = []
        for op in self.ops[graph.ops.step[self.ops] == step].tolist():
            tensor = int(graph.ops.tensor[op])
            if tensor in numbers:
                found.append(_Cut(op, BeatKind.GRADIENT, numbers[tensor]))
            found += [_Cut(op, BeatKind.CALL, call) for call in handed.get(op, ())]
        return found

    @property
    def _parameter_numbers(self) -> dict[int, int]:
        names = {text: i for i, text in enumerate(self.graph.names)}
        listed = self.graph.meta.get("parameters", ())
        return {names[p[0]]: i for i, p in enumerate(listed) if p[0] in names}

    def _handed(self, step: int) -> dict[int, list[int]]:
        """Ops that hand calls over; calls count from 0 in a step."""
        deps, found = self.graph.deps, dict[int, list[int]]()
        for number, op in enumerate(self.calls(step)):
            begin, end = deps.ptr[op], deps.ptr[op + 1]
            for src in deps.src[begin:end][deps.kind[begin:end] == DepKind.LAUNCH].tolist():
                found.setdefault(src, []).append(number)
        return found


def _edges(graph: Graph) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    return np.repeat(np.arange(len(graph)), np.diff(graph.deps.ptr)), graph.deps.src


def _common_shape(threads: Sequence[_Thread]) -> Shape:
    """The row of gradients and calls that most recorded steps have."""
    shapes = Counter(thread.shape(step) for thread in threads for step in thread.steps)
    (shape, times), total = shapes.most_common(1)[0], sum(shapes.values())
    missing = [t.rank for t in threads if not any(t.shape(s) == shape for s in t.steps)]
    if 2 * times <= total or missing:
        raise RetargetError(
            f"the recorded steps differ: only {times} of {total} communicate in the same order"
            + (f", none of rank {missing[0]}" if missing else "")
            + ". Record steady steps of a job whose steps are alike."
        )
    return shape


def _waits(threads: Sequence[_Thread], shape: Shape, calls: Sequence[Call]) -> dict[int, list[int]]:
    """Before which stretch of work the threads wait for which calls.

    DDP waits for all buckets once the last gradient is there, seen or not (it does not show where
    they had arrived); for other calls the place that most steps show counts.
    """
    places: dict[int, Counter[int]] = {}
    for thread in threads:
        for step in thread.steps:
            if thread.shape(step) == shape:
                for waited, place in thread.waits(step).items():
                    places.setdefault(waited, Counter())[place] += 1
    found: dict[int, list[int]] = {}
    for number, call in enumerate(calls):
        seen = places[number].most_common(1)[0][0] if number in places else len(shape)
        found.setdefault(len(shape) if call.bucket != NONE else seen, []).append(number)
    return found


def _median_beats(thread: _Thread, shape: Shape, waits: dict[int, list[int]]) -> tuple[Beat, ...]:
    """The thread's step: its cuts and waits, and between them the work of each phase."""
    table = np.array([thread.work(s) for s in thread.steps if thread.shape(s) == shape])
    beats: list[Beat] = []
    for stretch in range(len(shape) + 1):
        beats += [Beat(BeatKind.WAIT, call) for call in waits.get(stretch, ())]
        beats += _work(table[:, stretch])
        if stretch < len(shape):
            beats.append(Beat(*shape[stretch]))
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
    step = next(s for s in thread.steps if thread.shape(s) == shape)
    gradients = {which for kind, which in shape if kind is BeatKind.GRADIENT}
    parameters = graph.meta.get("parameters", ())
    sizes = [sum(_bytes_of(parameters, bucket)) for bucket in graph.meta.get("buckets", ())]
    found: list[Call] = []
    used = 0
    took = np.median(
        [graph.ops.dur_ns[thread.calls(s)] for s in thread.steps if thread.shape(s) == shape],
        axis=0,
    )
    for op, dur in zip(thread.calls(step), took):
        collective, size = Collective(graph.ops.collective[op]), int(graph.ops.size_bytes[op])
        reduces = collective is Collective.ALL_REDUCE and used < len(sizes) and bool(gradients)
        bucket = used if reduces and size == sizes[used] else NONE
        used += bucket != NONE
        found.append(Call(collective, size, DType(graph.ops.dtype[op]), bucket, round(dur)))
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
