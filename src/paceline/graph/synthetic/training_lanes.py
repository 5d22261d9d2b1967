"""How a rank's step lies on lanes: a training thread with gloo's threads, or GPU streams.

A `Pen` is told a step in the rank's own order; what it draws is what a recording of such a machine
shows. Members of one collective find each other by how many their group has had.
"""

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, ClassVar, Final

from paceline.graph.builder import GraphBuilder
from paceline.graph.facts import Facts
from paceline.graph.kinds import (
    UNPRICED,
    Axis,
    Collective,
    DepKind,
    Discipline,
    DType,
    LaneKind,
    OpKind,
    Phase,
)

HANDED_OVER_NS: Final = 5_000
"""What a thread takes to hand over a kernel or a collective."""
GLOO_THREADS: Final = 2


class MachineKind(Enum):
    """What a rank runs on."""

    CPU = "threads"
    GPU = "streams"


@dataclass(frozen=True)
class SentCollective:
    """A collective: what moves, and among whom."""

    collective: Collective
    size_bytes: int
    axis: Axis
    ranks: tuple[int, ...]


@dataclass(frozen=True)
class Message:
    """Activations or their gradients to or from another stage."""

    other: int  # rank
    ranks: tuple[int, ...]  # of the pipeline
    size_bytes: int
    what: str


class Drawing:
    """The graph under construction: lanes, groups and instances by what they are for."""

    def __init__(self, machine: MachineKind, facts: Facts) -> None:
        self.builder = GraphBuilder({"source": "synthetic training"}, facts)
        self.facts = facts
        self.announced: dict[int, int] = {}  # by instance
        self.machine = machine
        self._lanes: dict[tuple[int, str], int] = {}
        self._groups: dict[tuple[Axis, tuple[int, ...]], int] = {}
        self._instances: dict[tuple[Any, ...], int] = {}

    def begin(self, rank: int, step: int) -> "Pen":
        return _PENS[self.machine](self, rank, step)

    def lane(
        self, rank: int, name: str, kind: LaneKind, how: Discipline = Discipline.RECORDED
    ) -> int:
        if (rank, name) not in self._lanes:
            self._lanes[rank, name] = self.builder.lane(rank, name, kind=kind, discipline=how)
        return self._lanes[rank, name]

    def lanes_of(self, rank: int) -> list[int]:
        return [lane for (other, _), lane in self._lanes.items() if other == rank]

    def group(self, axis: Axis, ranks: tuple[int, ...]) -> int:
        if (axis, ranks) not in self._groups:
            name = f"{axis.value} {ranks[0]}"
            self._groups[axis, ranks] = self.builder.group(name, ranks, axis)
        return self._groups[axis, ranks]

    def instance(self, *key: Any) -> int:
        if key not in self._instances:
            self._instances[key] = self.builder.instance()
        return self._instances[key]


class Pen(ABC):
    """Draws one rank's step."""

    sends_on: ClassVar[LaneKind]
    works_on: ClassVar[LaneKind]

    def __init__(self, drawing: Drawing, rank: int, step: int) -> None:
        self.drawing, self.rank, self.step = drawing, rank, step
        self.thread = drawing.lane(rank, "main thread", LaneKind.THREAD)
        self.ready: dict[str, int] = {}  # gradient -> the op that readied it last
        self._calls: Counter[tuple[int, ...]] = Counter()
        self._feeding: Sequence[int] = ()
        self._lane_of: dict[int, int] = {}
        self.op("step", self.thread, kind=OpKind.MARKER)

    @abstractmethod
    def work(self, name: str, dur_ns: int, phase: Phase, layer: str, tensor: str) -> None:
        """The rank's own work; `tensor` is the gradient that it readies."""

    @abstractmethod
    def passes(self, name: str, size_bytes: int) -> None:
        """The rank passes over so many bytes of its weights; for a cluster to price."""

    @abstractmethod
    def wait(self, calls: Sequence[int], phase: Phase) -> None:
        """What follows needs what these calls bring."""

    @abstractmethod
    def end(self) -> None:
        """The step is over for the thread."""

    @abstractmethod
    def hand_over(self, lane: str, columns: Mapping[str, Any], gradients: Sequence[int]) -> int:
        """An op of communication behind these gradients, or without any behind all work so far."""

    @abstractmethod
    def lane_of(self, sent: SentCollective) -> str:
        """The name of the lane on which it runs."""

    def load(self, dur_ns: int) -> None:
        """The thread prepares the batch."""
        self.op("load", self.thread, dur_ns, kind=OpKind.DATA, phase=Phase.DATA)

    def call(self, sent: SentCollective, gradients: Iterable[str] = ()) -> int:
        ready = [self.ready[name] for name in gradients]
        op = self.hand_over(self.lane_of(sent), self._columns(sent), ready)
        for gradient in ready:
            self.drawing.builder.link(gradient, op, DepKind.GRADIENT)
        return op

    def call_in_turn(self, sent: SentCollective, gradients: Iterable[str], first: int) -> int:
        """A collective on a lane that serves by priority, which the group's first rank announces.
        `first` is the first of the job's parameters in it."""
        ready = [self.ready[name] for name in gradients]
        name = "exchange by priority"
        lane = self.drawing.lane(self.rank, name, self.sends_on, Discipline.PRIORITY)
        columns, link = self._columns(sent), self.drawing.builder.link
        op = self.hand_over(name, columns, ready)
        if self.rank == sent.ranks[0]:
            told = self.op("announce", lane, kind=OpKind.TRANSFER, phase=Phase.COMMUNICATION,
                           collective=Collective.BROADCAST, dtype=DType.INT64, size_bytes=16,
                           group=columns["group"], priority=1 + first, after=[op - 1],
                           dep=DepKind.LAUNCH)  # fmt: skip
            for gradient in ready:
                link(gradient, told, DepKind.GRADIENT)
            self.drawing.announced[columns["instance"]] = told
        for gradient in ready:
            link(gradient, op, DepKind.GRADIENT)
        link(self.drawing.announced[columns["instance"]], op, DepKind.MESSAGE)
        return op

    def behind(self, sent: SentCollective, call: int, others: Iterable[int] = ()) -> int:
        """A collective that another one hands over, on its lane; it waits for others too."""
        lane, columns = self._lane_of[call], self._columns(sent)
        op = self.op("behind", lane, after=[call], dep=DepKind.LAUNCH, **columns)
        for other in others:
            self.drawing.builder.link(other, op)
        return op

    def beside(self, name: str, dur_ns: int, calls: Sequence[int]) -> int:
        """An update behind what these calls bring, on a lane of the rank's updates."""
        lane = self.drawing.lane(self.rank, "updates", self.works_on, Discipline.PRIORITY)
        return self.op(name, lane, dur_ns, phase=Phase.UPDATE, after=calls)

    def updates_from(self, calls: Sequence[int]) -> None:
        """The next op of the update works on what these calls bring."""
        self._feeding = calls

    def send(self, message: Message) -> int:
        way = (self.rank, message.other)
        return self.hand_over(f"to {message.other}", self._message(OpKind.SEND, message, way), ())

    def receive(self, message: Message) -> int:
        way = (message.other, self.rank)
        return self.hand_over(f"from {message.other}", self._message(OpKind.RECV, message, way), ())

    def op(self, name: str, lane: int, dur_ns: int = 0, **columns: Any) -> int:
        op = self.drawing.builder.op(name, lane, dur_ns, step=self.step, **columns)
        self._lane_of[op] = lane
        return op

    def fed(self, op: int, phase: Phase) -> None:
        if phase is Phase.UPDATE:
            for call in self._feeding:
                self.drawing.builder.link(call, op, DepKind.GRADIENT)
            self._feeding = ()

    def _passing(self, size_bytes: int) -> dict[str, Any]:
        return {"size_bytes": size_bytes, "phase": Phase.COMMUNICATION, "dtype": DType.FLOAT32}

    def _columns(self, sent: SentCollective) -> dict[str, Any]:
        self._calls[sent.ranks] += 1
        return {
            "kind": OpKind.COLLECTIVE,
            "phase": Phase.COMMUNICATION,
            "collective": sent.collective,
            "size_bytes": sent.size_bytes,
            "dtype": DType.FLOAT32,
            "group": self.drawing.group(sent.axis, sent.ranks),
            "instance": self.drawing.instance(self.step, sent.ranks, self._calls[sent.ranks]),
        }

    def _message(self, kind: OpKind, message: Message, way: tuple[int, int]) -> dict[str, Any]:
        return {
            "kind": kind,
            "phase": Phase.COMMUNICATION,
            "collective": Collective.POINT_TO_POINT,
            "size_bytes": message.size_bytes,
            "group": self.drawing.group(Axis.PIPELINE, message.ranks),
            "instance": self.drawing.instance(self.step, way, message.what),
        }


class _Threads(Pen):
    """A training thread; gloo's threads take its collectives in turn."""

    sends_on = LaneKind.COMM_THREAD
    works_on = LaneKind.THREAD

    def work(self, name: str, dur_ns: int, phase: Phase, layer: str, tensor: str) -> None:
        op = self.op(name, self.thread, dur_ns, phase=phase, layer=layer, tensor=tensor)
        self.ready[tensor] = op
        self.fed(op, phase)

    def passes(self, name: str, size_bytes: int) -> None:
        self.op(name, self.thread, UNPRICED, **self._passing(size_bytes))

    def wait(self, calls: Sequence[int], phase: Phase) -> None:
        self.op("wait", self.thread, kind=OpKind.WAIT, phase=phase, after=calls, dep=DepKind.WAIT)

    def end(self) -> None:
        """The thread has waited for everything."""

    def lane_of(self, sent: SentCollective) -> str:
        return f"pt_gloo_runloop {sum(self._calls.values()) % GLOO_THREADS}"

    def hand_over(self, lane: str, columns: Mapping[str, Any], gradients: Sequence[int]) -> int:
        asked = self.op("c10d", self.thread, HANDED_OVER_NS, kind=OpKind.HOST,
                        phase=Phase.COMMUNICATION)  # fmt: skip
        on = self.drawing.lane(self.rank, lane, LaneKind.COMM_THREAD)
        return self.op("gloo", on, after=[asked], dep=DepKind.LAUNCH, **columns)


class _Streams(Pen):
    """A host thread that feeds a compute stream, and a stream for each axis of communication."""

    sends_on = LaneKind.STREAM
    works_on = LaneKind.STREAM

    def __init__(self, drawing: Drawing, rank: int, step: int) -> None:
        super().__init__(drawing, rank, step)
        self.compute = drawing.lane(rank, "stream 7", LaneKind.STREAM)
        self._last: list[int] = []  # the last kernel of the step
        self._awaited: list[int] = []

    def work(self, name: str, dur_ns: int, phase: Phase, layer: str, tensor: str) -> None:
        op = self._kernel(name, {"phase": phase, "layer": layer, "tensor": tensor}, dur_ns)
        self.ready[tensor] = op
        self.fed(op, phase)

    def passes(self, name: str, size_bytes: int) -> None:
        self._kernel(name, self._passing(size_bytes), UNPRICED)

    def _kernel(self, name: str, columns: Mapping[str, Any], dur_ns: int) -> int:
        op = self._launched(name, self.compute, columns, dur_ns)
        for call in self._awaited:
            self.drawing.builder.link(call, op, DepKind.EVENT)
        self._last, self._awaited = [op], []
        return op

    def wait(self, calls: Sequence[int], phase: Phase) -> None:
        self._awaited += calls

    def end(self) -> None:
        done = self.op("cudaDeviceSynchronize", self.thread, kind=OpKind.WAIT)
        for lane in self.drawing.lanes_of(self.rank):
            if lane != self.thread:
                self.drawing.builder.drain(done, lane)

    def lane_of(self, sent: SentCollective) -> str:
        return f"stream of {sent.axis.value}"

    def hand_over(self, lane: str, columns: Mapping[str, Any], gradients: Sequence[int]) -> int:
        on = self.drawing.lane(self.rank, lane, LaneKind.STREAM)
        op = self._launched("nccl", on, columns)
        for last in () if gradients else self._last:
            self.drawing.builder.link(last, op, DepKind.EVENT)
        return op

    def _launched(self, name: str, lane: int, columns: Mapping[str, Any], dur_ns: int = 0) -> int:
        launch = self.op("cudaLaunchKernel", self.thread, HANDED_OVER_NS, kind=OpKind.HOST,
                         phase=columns["phase"])  # fmt: skip
        return self.op(name, lane, dur_ns, after=[launch], dep=DepKind.LAUNCH, **columns)


_PENS: Final = {MachineKind.CPU: _Threads, MachineKind.GPU: _Streams}
