"""A transformer's training step under tensor, pipeline and data parallelism at once.

Ranks form a mesh (data, pipeline, tensor), tensor innermost. Per layer and micro-batch every
tensor group all-reduces activations after attention and after the MLP, forward and backward;
stages pass activations on; at the end each stage all-reduces its gradients over the data groups.
"""

from dataclasses import dataclass

from paceline.errors import GraphError
from paceline.graph.builder import GraphBuilder
from paceline.graph.facts import Facts
from paceline.graph.graph import Graph
from paceline.graph.kinds import Axis, Collective, DepKind, DType, LaneKind, OpKind, Phase
from paceline.graph.schedules import Schedule, order
from paceline.graph.synthetic.pipeline import PHASES


@dataclass(frozen=True)
class Transformer:
    """Settings of the job; durations are of one layer, one micro-batch, one tensor rank."""

    data: int = 2
    pipeline: int = 2
    tensor: int = 2
    layers: int = 4
    micro_batches: int = 4
    attention_ns: int = 300_000
    mlp_ns: int = 500_000
    update_ns: int = 400_000
    activation_bytes: int = 8_000_000
    gradient_bytes: int = 50_000_000  # of one layer on one rank
    bytes_per_s: int = 50_000_000_000

    def __post_init__(self) -> None:
        sizes = (self.data, self.pipeline, self.tensor, self.layers, self.micro_batches)
        if min(sizes) < 1 or self.layers % self.pipeline:
            raise GraphError(
                "every size must be 1 or more, and the layers a multiple of the stages; given are "
                f"{self.layers} layers on {self.pipeline} stages: {self}"
            )


def transformer(job: Transformer) -> Graph:
    """The graph of one training step on data * pipeline * tensor ranks."""
    drawing = _Drawing(job)
    for stage in range(job.pipeline):
        for task in order(Schedule.ONE_F_ONE_B, stage, job.pipeline, job.micro_batches, 1):
            for replica in range(job.data):
                drawing.pass_(replica, stage, PHASES[task.work], task.microbatch)
    drawing.messages()
    for stage in range(job.pipeline):
        drawing.gradients(stage)
    return drawing.b.build()


@dataclass(frozen=True)
class _Lanes:
    compute: int
    collectives: int
    data: int


class _Drawing:
    """The graph under construction."""

    def __init__(self, job: Transformer) -> None:
        self.job = job
        world = job.data * job.pipeline * job.tensor
        self.b = GraphBuilder({"source": "synthetic transformer"}, Facts(world_size=world))
        self.lanes = [self._rank_lanes(rank) for rank in range(world)]
        self._groups: dict[tuple[int, ...], int] = {}
        self._links: dict[tuple[int, int, LaneKind], int] = {}
        self._ends: dict[tuple[int, Phase, int], tuple[int, int]] = {}  # first and last op
        self._last: dict[int, int] = {}  # last op of each rank

    def rank(self, replica: int, stage: int, tensor: int) -> int:
        return (replica * self.job.pipeline + stage) * self.job.tensor + tensor

    def pass_(self, replica: int, stage: int, phase: Phase, micro_batch: int) -> None:
        """All layers of a stage, forward or backward, on all ranks of a tensor group."""
        ranks = [self.rank(replica, stage, t) for t in range(self.job.tensor)]
        each = self.job.layers // self.job.pipeline
        layers = range(stage * each, (stage + 1) * each)
        forward = phase is Phase.FORWARD
        first: dict[int, int] = {}
        last: dict[int, int] = {}
        for layer in layers if forward else reversed(layers):
            parts = [("attention", self.job.attention_ns), ("mlp", self.job.mlp_ns)]
            for name, dur_ns in parts if forward else reversed(parts):
                for rank in ranks:
                    op = self._compute(rank, name, dur_ns if forward else 2 * dur_ns, phase, layer)
                    if rank in last:
                        self.b.link(last[rank], op)
                    first.setdefault(rank, op)
                    last[rank] = op
                reduced = self._all_reduce(ranks, f"{name} activations", layer, Axis.TENSOR, last)
                last.update(reduced)
        for rank in ranks:
            self._ends[rank, phase, micro_batch] = (first[rank], last[rank])
            self._last[rank] = last[rank]

    def messages(self) -> None:
        """Activations to the next stage, their gradients back."""
        job = self.job
        for micro_batch in range(job.micro_batches):
            for phase, way in ((Phase.FORWARD, 1), (Phase.BACKWARD, -1)):
                stages = range(job.pipeline - 1)
                for stage in stages if way == 1 else [s + 1 for s in reversed(stages)]:
                    for replica in range(job.data):
                        for tensor in range(job.tensor):
                            source = self.rank(replica, stage, tensor)
                            target = self.rank(replica, stage + way, tensor)
                            self._message(source, target, phase, micro_batch)

    def gradients(self, stage: int) -> None:
        """All-reduce each layer's gradients over the replicas, then update."""
        each = self.job.layers // self.job.pipeline
        for tensor in range(self.job.tensor):
            ranks = [self.rank(r, stage, tensor) for r in range(self.job.data)]
            last = {rank: self._last[rank] for rank in ranks}
            for layer in reversed(range(stage * each, (stage + 1) * each)):
                last.update(self._all_reduce(ranks, "gradients", layer, Axis.DATA, self._last))
            for rank in ranks:
                self.b.op(
                    "update",
                    self.lanes[rank].compute,
                    self.job.update_ns,
                    after=[last[rank]],
                    phase=Phase.UPDATE,
                )

    def _compute(self, rank: int, name: str, dur_ns: int, phase: Phase, layer: int) -> int:
        lane = self.lanes[rank].compute
        return self.b.op(name, lane, dur_ns, phase=phase, layer=f"layer {layer}")

    def _all_reduce(
        self, ranks: list[int], tensor: str, layer: int, axis: Axis, after: dict[int, int]
    ) -> dict[int, int]:
        """One collective over the ranks; nothing where there is only one."""
        if len(ranks) == 1:
            return {}
        size = self.job.activation_bytes if axis is Axis.TENSOR else self.job.gradient_bytes
        instance, group = self.b.instance(), self._group(ranks, axis)
        lanes = [
            self.lanes[r].collectives if axis is Axis.TENSOR else self.lanes[r].data for r in ranks
        ]
        return {
            rank: self.b.op(
                f"all_reduce {tensor}",
                lane,
                2 * (len(ranks) - 1) * size * 10**9 // (len(ranks) * self.job.bytes_per_s),
                after=[after[rank]],
                kind=OpKind.COLLECTIVE,
                phase=Phase.COMMUNICATION,
                collective=Collective.ALL_REDUCE,
                dtype=DType.BFLOAT16,
                size_bytes=size,
                group=group,
                instance=instance,
                layer=f"layer {layer}",
                tensor=f"layer {layer} {tensor}",
            )
            for rank, lane in zip(ranks, lanes)
        }

    def _message(self, source: int, target: int, phase: Phase, micro_batch: int) -> None:
        instance, size = self.b.instance(), self.job.activation_bytes
        ends = (
            (OpKind.SEND, self._link(source, target, LaneKind.LINK_OUT)),
            (OpKind.RECV, self._link(target, source, LaneKind.LINK_IN)),
        )
        send, receive = (
            self.b.op(
                f"{kind.name.lower()} {phase.name.lower()} {micro_batch}",
                lane,
                size * 10**9 // self.job.bytes_per_s,
                kind=kind,
                phase=Phase.COMMUNICATION,
                collective=Collective.POINT_TO_POINT,
                dtype=DType.BFLOAT16,
                size_bytes=size,
                instance=instance,
            )
            for kind, lane in ends
        )
        self.b.link(self._ends[source, phase, micro_batch][1], send)
        self.b.link(receive, self._ends[target, phase, micro_batch][0], DepKind.MESSAGE)

    def _rank_lanes(self, rank: int) -> _Lanes:
        streams = ("compute", "tensor collectives", "data collectives")
        return _Lanes(*(self.b.lane(rank, name, kind=LaneKind.STREAM) for name in streams))

    def _group(self, ranks: list[int], axis: Axis) -> int:
        key = tuple(ranks)
        if key not in self._groups:
            self._groups[key] = self.b.group(f"{axis.value} {ranks[0]}", ranks, axis)
        return self._groups[key]

    def _link(self, rank: int, other: int, kind: LaneKind) -> int:
        """The rank's queue to or from another."""
        key = (rank, other, kind)
        if key not in self._links:
            way = "to" if kind is LaneKind.LINK_OUT else "from"
            self._links[key] = self.b.lane(rank, f"{way} rank {other}", kind=kind)
        return self._links[key]
