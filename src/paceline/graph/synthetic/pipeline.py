"""Pipeline parallelism with the 1F1B schedule: one rank a stage, micro-batches flow through.

Activations and gradients travel as messages.
"""

from dataclasses import dataclass

from paceline.errors import GraphError
from paceline.graph.builder import GraphBuilder
from paceline.graph.facts import Facts
from paceline.graph.graph import Graph
from paceline.graph.kinds import Collective, DepKind, LaneKind, OpKind, Phase
from paceline.graph.schedules import Schedule, TaskKind, order

PHASES = {TaskKind.FORWARD: Phase.FORWARD, TaskKind.BACKWARD: Phase.BACKWARD}
"""The phase of each pass that 1F1B has."""


@dataclass(frozen=True)
class Pipeline:
    """Settings of the job; durations are of one micro-batch on one stage."""

    stages: int = 4
    micro_batches: int = 8
    forward_ns: int = 1_000_000
    backward_ns: int = 2_000_000
    message_ns: int = 100_000
    message_bytes: int = 4_000_000
    update_ns: int = 500_000

    def __post_init__(self) -> None:
        if self.stages < 1 or self.micro_batches < 1:
            raise GraphError(f"a pipeline needs a stage and a micro-batch at least: {self}")


def pipeline(job: Pipeline) -> Graph:
    """The graph of one training step."""
    b = GraphBuilder({"source": "synthetic 1F1B pipeline"}, Facts(world_size=job.stages))
    drawing = _Drawing(b, job)
    for stage in range(job.stages):
        for task in order(Schedule.ONE_F_ONE_B, stage, job.stages, job.micro_batches, 1):
            drawing.compute(stage, PHASES[task.work], task.microbatch)
        b.op("update", drawing.lanes[stage], job.update_ns, phase=Phase.UPDATE)
    drawing.messages()
    return b.build()


class _Drawing:
    """The graph under construction."""

    def __init__(self, b: GraphBuilder, job: Pipeline) -> None:
        self.b, self.job = b, job
        self.lanes = [b.lane(s, "compute", kind=LaneKind.STREAM) for s in range(job.stages)]
        self._links: dict[tuple[int, int, LaneKind], int] = {}
        self._made: dict[tuple[int, Phase, int], int] = {}

    def compute(self, stage: int, phase: Phase, micro_batch: int) -> None:
        forward = phase is Phase.FORWARD
        op = self.b.op(
            f"{phase.name.lower()} {micro_batch}",
            self.lanes[stage],
            self.job.forward_ns if forward else self.job.backward_ns,
            phase=phase,
            layer=f"stage {stage}",
        )
        self._made[stage, phase, micro_batch] = op

    def messages(self) -> None:
        """Micro-batch by micro-batch, activations down and gradients up."""
        for micro_batch in range(self.job.micro_batches):
            for stage in range(self.job.stages - 1):
                self._message(stage, stage + 1, Phase.FORWARD, micro_batch)
            for stage in range(self.job.stages - 1, 0, -1):
                self._message(stage, stage - 1, Phase.BACKWARD, micro_batch)

    def _message(self, source: int, target: int, phase: Phase, micro_batch: int) -> None:
        made, instance = self._made, self.b.instance()
        ends = (
            (OpKind.SEND, source, self._lane(source, target, LaneKind.LINK_OUT)),
            (OpKind.RECV, target, self._lane(target, source, LaneKind.LINK_IN)),
        )
        send, receive = (
            self.b.op(
                f"{kind.name.lower()} {phase.name.lower()} {micro_batch}",
                lane,
                self.job.message_ns,
                kind=kind,
                phase=Phase.COMMUNICATION,
                collective=Collective.POINT_TO_POINT,
                size_bytes=self.job.message_bytes,
                instance=instance,
            )
            for kind, _, lane in ends
        )
        self.b.link(made[source, phase, micro_batch], send, DepKind.DATA)
        self.b.link(receive, made[target, phase, micro_batch], DepKind.MESSAGE)

    def _lane(self, rank: int, other: int, kind: LaneKind) -> int:
        """The rank's queue to or from a neighbour."""
        key = (rank, other, kind)
        if key not in self._links:
            way = "to" if kind is LaneKind.LINK_OUT else "from"
            self._links[key] = self.b.lane(rank, f"{way} stage {other}", kind=kind)
        return self._links[key]
