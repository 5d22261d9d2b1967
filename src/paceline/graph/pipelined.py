"""`pipelined`: replicas of a model cut into stages, drawn as a pipeline's tasks and messages.

Ranks of a pipeline stand side by side: rank = replica x stages + stage. The batch of all workers
stays what it is: a pipeline takes those of as many workers as it has stages, in micro-batches; each
worker loads its own, sends it to the first stage, and computes its loss of what the last one gives.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

from paceline.graph.builder import GraphBuilder
from paceline.graph.facts import Facts
from paceline.graph.graph import Graph
from paceline.graph.kinds import (
    UNPRICED,
    Axis,
    Basis,
    Collective,
    DepKind,
    DType,
    LaneKind,
    OpKind,
    Phase,
)
from paceline.graph.stage_costs import JobCost, PieceCost


class Doing(Enum):
    """What a stage's worker does."""

    LOAD = "load"  # its own batch
    FORWARD = "forward"
    LOSS = "loss"  # of its own batch, there and back
    BACKWARD = "backward"
    WEIGHT = "weight"  # the half of a backward pass that passes nothing on
    UPDATE = "update"


_PHASES = {
    Doing.FORWARD: Phase.FORWARD,
    Doing.BACKWARD: Phase.BACKWARD,
    Doing.WEIGHT: Phase.BACKWARD,
}


@dataclass(frozen=True)
class Turn:
    """One thing that a stage's worker does: a pass of a micro-batch through one of its chunks of
    layers, or something for a whole batch, whose last micro-batch it names."""

    doing: Doing
    microbatch: int
    chunk: int = 0
    share: float = 1.0  # of the work of its phase


@dataclass(frozen=True)
class Shape:
    """Of the job of pipelines side by side."""

    stages: int
    width: int  # pipelines
    microbatches: int
    chunks: int
    overlaps: bool = False  # a batch runs into the next

    @property
    def each(self) -> int:
        """Micro-batches of a worker's batch."""
        return self.microbatches // self.stages

    def owner(self, microbatch: int) -> int:
        return microbatch % self.microbatches // self.each

    def batch_of(self, microbatch: int) -> int:
        return microbatch // self.microbatches


def pipelined(
    cost: JobCost, shape: Shape, turns: Mapping[int, Sequence[Turn]], facts: Facts
) -> Graph:
    """The graph of all turns, by stage. Pieces are by chunk and stage in turn. Of the facts of the
    job as it was stays what was measured of its machine."""
    drawing = _Drawing(cost, shape, facts)
    for stage, mine in turns.items():
        for replica in range(shape.width):
            drawing.rank(replica, stage, mine)
    drawing.connect()
    return drawing.b.build()


@dataclass(frozen=True)
class _Made:
    """An op of a rank."""

    op: int
    rank: int


_Key = tuple[int, Doing, int, int]
"""Replica, what, piece (or owner) and micro-batch (or batch)."""


class _Drawing:
    """The graph under construction."""

    def __init__(self, cost: JobCost, shape: Shape, facts: Facts) -> None:
        world, ratios = shape.stages * shape.width, facts.ratios
        kept = Facts(world_size=world, steps_overlap=shape.overlaps, ratios=ratios)
        self.b = GraphBuilder({"source": "a recorded job as a pipeline"}, kept)
        self.cost, self.shape = cost, shape
        self.made: dict[_Key, _Made] = {}
        self._lanes: dict[tuple[int, str], int] = {}
        self._groups: dict[tuple[Axis, int], int] = {}
        self._instances: dict[tuple[int, int], int] = {}
        self._reducing: dict[tuple[int, int], int] = {}  # by rank and step: where it begins

    def rank(self, replica: int, stage: int, turns: Sequence[Turn]) -> None:
        """All that a rank does, in order; its ops are kept by what they computed."""
        rank = self._rank(replica, stage)
        for turn in turns:
            step = self.shape.batch_of(turn.microbatch)
            if turn.doing is Doing.UPDATE:
                self._update(rank, stage, step)
            elif turn.doing is Doing.LOAD:
                op = self._work(rank, "load", self.cost.load_ns, Phase.DATA, step)
                self.made[replica, Doing.LOAD, stage, step] = _Made(op, rank)
            elif turn.doing is Doing.LOSS:
                self._work(rank, "loss", self.cost.loss_forward_ns, Phase.FORWARD, step)
                took = self.cost.loss_backward_ns
                op = self._work(rank, "loss's gradient", took, Phase.BACKWARD, step)
                self.made[replica, Doing.LOSS, stage, step] = _Made(op, rank)
            else:
                virtual = turn.chunk * self.shape.stages + stage
                took = self._took(self.cost.pieces[virtual], turn)
                phase = _PHASES[turn.doing]
                op = self._work(rank, turn.doing.value, took, phase, step, f"stage {stage}")
                self.made[replica, turn.doing, virtual, turn.microbatch] = _Made(op, rank)

    def connect(self) -> None:
        """What each task passes on, in the order in which it was made."""
        for key, made in sorted(self.made.items(), key=lambda item: item[1].op):
            replica, doing, piece, number = key
            if doing is Doing.LOAD:
                for microbatch in self._own(piece, number):
                    self._pass(made, (replica, Doing.FORWARD, 0, microbatch), 0)
            elif doing is Doing.LOSS:
                last = self._pieces - 1
                for microbatch in self._own(piece, number):
                    self._pass(made, (replica, Doing.BACKWARD, last, microbatch), self._pieces)
            elif doing is Doing.FORWARD and piece < self._pieces - 1:
                self._pass(made, (replica, doing, piece + 1, number), piece + 1)
            elif doing is Doing.FORWARD:
                owner, batch = self.shape.owner(number), self.shape.batch_of(number)
                self._pass(made, (replica, Doing.LOSS, owner, batch), self._pieces)
            elif doing is Doing.BACKWARD and piece:
                self._pass(made, (replica, doing, piece - 1, number), piece)

    @property
    def _pieces(self) -> int:
        return self.shape.stages * self.shape.chunks

    def _own(self, stage: int, batch: int) -> range:
        first = batch * self.shape.microbatches + stage * self.shape.each
        return range(first, first + self.shape.each)

    def _work(
        self, rank: int, name: str, took: int, phase: Phase, step: int, layer: str = ""
    ) -> int:
        kind = OpKind.DATA if phase is Phase.DATA else OpKind.COMPUTE
        main = self._lane(rank, "main thread", LaneKind.THREAD)
        return self.b.op(name, main, took, kind=kind, phase=phase, step=step, layer=layer,
                         basis=Basis.ARITHMETIC)  # fmt: skip

    def _took(self, piece: PieceCost, turn: Turn) -> int:
        spent = piece.forward_ns if turn.doing is Doing.FORWARD else piece.backward_ns
        return round(turn.share * spent * self.shape.stages / self.shape.microbatches)

    def _update(self, rank: int, stage: int, step: int) -> None:
        """Replicas of a stage add up its gradients, then each updates its part."""
        mine = self.cost.pieces[stage :: self.shape.stages]
        main = self._lane(rank, "main thread", LaneKind.THREAD)
        after = []
        if self.shape.width > 1:
            key = (stage, step)
            instance = self._instances.setdefault(key, -1)
            if instance < 0:
                instance = self._instances[key] = self.b.instance()
            on = self._lane(rank, "gradients", LaneKind.COMM_THREAD)
            behind = self.b.op("all_reduce", main, kind=OpKind.HOST, phase=Phase.COMMUNICATION,
                               step=step)  # fmt: skip
            if not self.shape.overlaps:
                self._reducing[rank, step] = behind
            size = sum(piece.gradient_bytes for piece in mine)
            reduced = self.b.op(
                "all_reduce", on, UNPRICED, after=[behind], dep=DepKind.LAUNCH,
                kind=OpKind.COLLECTIVE, phase=Phase.COMMUNICATION, step=step, size_bytes=size,
                collective=Collective.ALL_REDUCE, dtype=DType.FLOAT32, instance=instance,
                group=self._group(Axis.DATA, stage),
            )  # fmt: skip
            after = [reduced]
        took = sum(piece.update_ns for piece in mine)
        self.b.op("update", main, took, after=after, dep=DepKind.GRADIENT, phase=Phase.UPDATE,
                  step=step, layer=f"stage {stage}")  # fmt: skip

    def _pass(self, made: _Made, to: _Key, edge: int) -> None:
        """A result to whoever takes it, over an edge between pieces or at either end of them."""
        taker = self.made[to]
        if taker.rank == made.rank:
            self.b.link(made.op, taker.op)
            return
        size = self.cost.edge_bytes[edge] // self.shape.each
        replica, _, _, number = to
        step = number if to[1] is Doing.LOSS else self.shape.batch_of(number)
        columns: dict[str, Any] = {
            "phase": Phase.COMMUNICATION,
            "collective": Collective.POINT_TO_POINT,
            "dtype": DType.FLOAT32,
            "size_bytes": size,
            "group": self._group(Axis.PIPELINE, replica),
            "instance": self.b.instance(),
            "step": step,
        }
        out = self._lane(made.rank, f"to rank {taker.rank}", LaneKind.LINK_OUT)
        sent = self.b.op("send", out, UNPRICED, after=[made.op], kind=OpKind.SEND, **columns)
        if (reducing := self._reducing.get((made.rank, step))) is not None:
            self.b.link(sent, reducing)  # what others wait for goes first
        into = self._lane(taker.rank, f"from rank {made.rank}", LaneKind.LINK_IN)
        receive = self.b.op("recv", into, UNPRICED, kind=OpKind.RECV, **columns)
        self.b.link(receive, taker.op, DepKind.MESSAGE)

    def _rank(self, replica: int, stage: int) -> int:
        return replica * self.shape.stages + stage

    def _lane(self, rank: int, name: str, kind: LaneKind) -> int:
        if (rank, name) not in self._lanes:
            self._lanes[rank, name] = self.b.lane(rank, name, kind=kind)
        return self._lanes[rank, name]

    def _group(self, axis: Axis, number: int) -> int:
        """Of one stage's replicas, or of one pipeline's stages."""
        if (axis, number) not in self._groups:
            ranks = (
                [self._rank(replica, number) for replica in range(self.shape.width)]
                if axis is Axis.DATA
                else [self._rank(number, stage) for stage in range(self.shape.stages)]
            )
            self._groups[axis, number] = self.b.group(f"{axis.value} {number}", ranks, axis)
        return self._groups[axis, number]
