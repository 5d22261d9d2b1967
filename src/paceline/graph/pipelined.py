"""`pipelined`: replicas of a model cut into stages, drawn as a pipeline's tasks and messages.

Ranks are numbered stage by stage: rank = replica + width x stage. The batch of all workers stays
what it is: a pipeline takes those of as many workers as it has stages, in micro-batches.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
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


@dataclass(frozen=True)
class Turn:
    """One thing that a stage does: a phase of a micro-batch through one of its chunks of layers.
    The update has no micro-batch of its own; `share` of the phase's work is done now."""

    phase: Phase
    microbatch: int
    chunk: int = 0
    share: float = 1.0
    passes_on: bool = True  # its result goes to a neighbour


@dataclass(frozen=True)
class Shape:
    """Of the job of pipelines side by side."""

    stages: int
    width: int  # pipelines
    microbatches: int
    chunks: int
    activation_bytes: int  # at a border, of one worker's batch as recorded; 0: not known

    def message_bytes(self) -> int:
        return self.stages * self.activation_bytes // self.microbatches


def pipelined(cost: JobCost, shape: Shape, turns: Mapping[int, Sequence[Turn]]) -> Graph:
    """The graph of all turns, by stage. Pieces are by chunk and stage in turn."""
    drawing = _Drawing(cost, shape)
    for stage, mine in turns.items():
        for replica in range(shape.width):
            drawing.rank(replica, stage, mine)
    drawing.connect()
    return drawing.b.build()


class _Drawing:
    """The graph under construction."""

    def __init__(self, cost: JobCost, shape: Shape) -> None:
        world = shape.stages * shape.width
        self.b = GraphBuilder({"source": "a recorded job as a pipeline"}, Facts(world_size=world))
        self.cost, self.shape = cost, shape
        self.made: dict[tuple[int, int, Phase, int], tuple[int, int, int]] = {}
        self._lanes: dict[tuple[int, str], int] = {}
        self._groups: dict[tuple[Axis, int], int] = {}
        self._instances: dict[tuple[int, int], int] = {}

    def rank(self, replica: int, stage: int, turns: Sequence[Turn]) -> None:
        """All that a rank does, in order: op, step and stage are kept by what they computed."""
        rank = self._rank(replica, stage)
        main = self._lane(rank, "main thread", LaneKind.THREAD)
        loaded: set[int] = set()
        for turn in turns:
            step = turn.microbatch // self.shape.microbatches
            if not stage and step not in loaded:
                load = self.cost.load_ns * self.shape.stages
                self.b.op("load", main, load, kind=OpKind.DATA, phase=Phase.DATA, step=step)
                loaded.add(step)
            if turn.phase is Phase.UPDATE:
                self._update(rank, stage, step)
                continue
            virtual = turn.chunk * self.shape.stages + stage
            took = self._took(self.cost.pieces[virtual], turn)
            op = self.b.op(turn.phase.name.lower(), main, took, phase=turn.phase, step=step,
                           layer=f"stage {stage}", basis=Basis.ARITHMETIC)  # fmt: skip
            if turn.passes_on:
                self.made[replica, virtual, turn.phase, turn.microbatch] = (op, rank, step)

    def connect(self) -> None:
        """What each task passes on, in the order in which it was made."""
        last = self.shape.stages * self.shape.chunks - 1
        for (replica, virtual, phase, microbatch), (op, rank, step) in sorted(
            self.made.items(), key=lambda item: item[1][0]
        ):
            forward = phase is Phase.FORWARD
            if forward and virtual == last:
                other = self.made[replica, virtual, Phase.BACKWARD, microbatch]
                self.b.link(op, other[0])
                continue
            if not forward and not virtual:
                continue
            beside = virtual + 1 if forward else virtual - 1
            there, other_rank, _ = self.made[replica, beside, phase, microbatch]
            if other_rank == rank:
                self.b.link(op, there)
            else:
                self._message((op, rank), (there, other_rank), step, replica)

    def _took(self, piece: PieceCost, turn: Turn) -> int:
        spent = piece.forward_ns if turn.phase is Phase.FORWARD else piece.backward_ns
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

    def _message(
        self, source: tuple[int, int], target: tuple[int, int], step: int, replica: int
    ) -> None:
        (op, rank), (there, other) = source, target
        columns: dict[str, Any] = {
            "phase": Phase.COMMUNICATION,
            "collective": Collective.POINT_TO_POINT,
            "dtype": DType.FLOAT32,
            "size_bytes": self.shape.message_bytes(),
            "group": self._group(Axis.PIPELINE, replica),
            "instance": self.b.instance(),
            "step": step,
        }
        self.b.op("send", self._lane(rank, f"to rank {other}", LaneKind.LINK_OUT), UNPRICED,
                         after=[op], kind=OpKind.SEND, **columns)  # fmt: skip
        receive = self.b.op("recv", self._lane(other, f"from rank {rank}", LaneKind.LINK_IN),
                            UNPRICED, kind=OpKind.RECV, **columns)  # fmt: skip
        self.b.link(receive, there, DepKind.MESSAGE)

    def _rank(self, replica: int, stage: int) -> int:
        return replica + self.shape.width * stage

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
