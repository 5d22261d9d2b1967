"""A pipeline as a graph: one rank a stage, messages between them, several batches.

The order of each stage's work is that of `runtime.stages`, so what is replayed is what would run.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from paceline.graph import (
    Basis,
    Collective,
    DepKind,
    Discipline,
    Facts,
    Graph,
    GraphBuilder,
    LaneKind,
    MemoryCategory,
    OpKind,
    Phase,
)
from paceline.place.pipeline.formulas import PipelinePlan, Wires
from paceline.place.pipeline.profile import LayerCost
from paceline.runtime.stages import PipelineSchedule, Task, TaskKind, tasks, versions_kept

_PHASES = {
    TaskKind.FORWARD: Phase.FORWARD,
    TaskKind.BACKWARD: Phase.BACKWARD,
    TaskKind.WEIGHT: Phase.BACKWARD,
    TaskKind.UPDATE: Phase.UPDATE,
}

_NAMES = {
    LaneKind.LINK_OUT: "to stage {}",
    LaneKind.LINK_IN: "from stage {}",
    LaneKind.THREAD: "copies of stage {}",
}


def draw(
    plan: PipelinePlan,
    stages: Sequence[LayerCost],
    wires: Wires,
    batches: int,
    *,
    lane: LaneKind = LaneKind.STREAM,
) -> Graph:
    """The graph of `batches` batches; `op.step` is the batch."""
    drawing = _Drawing(plan, stages, wires, lane)
    orders = [tasks(plan.schedule, plan.shape, s, batches) for s in range(plan.shape.stages)]
    for visit in (drawing.task, drawing.messages):
        for stage, order in enumerate(orders):
            for task in order:
                visit(stage, task)
    return drawing.b.build()


@dataclass(frozen=True)
class _Made:
    """A task's op, and the ops at which it takes its message and gives its own."""

    op: int
    take: int
    give: int


def _first(*ops: int | None) -> int:
    return next(op for op in ops if op is not None)


class _Drawing:
    """The graph under construction."""

    def __init__(
        self, plan: PipelinePlan, stages: Sequence[LayerCost], wires: Wires, lane: LaneKind
    ) -> None:
        facts = Facts(world_size=len(stages), steps_overlap=True)
        self.b = GraphBuilder({"source": f"planned pipeline, {plan.schedule.value}"}, facts)
        self._plan, self._costs, self._wires = plan, stages, wires
        self._lanes = [self.b.lane(s, "compute", kind=lane) for s in range(len(stages))]
        self._links: dict[tuple[int, int, LaneKind, str], int] = {}
        self._made: dict[tuple[int, TaskKind, int], _Made] = {}  # by virtual stage and micro-batch
        self._last: dict[tuple[int, int], tuple[int, int]] = {}  # by ends: asked for, and taken
        self._begun: set[int] = set()

    def task(self, stage: int, task: Task) -> None:
        virtual, borders = task.chunk * self._plan.shape.stages + stage, self._wires.borders
        take = self._gate("take", stage)
        unpack = self._packed("unpack", stage, borders.taking_ns(virtual, task.work))
        op = self.b.op(
            f"{task.work.name.lower()} {task.microbatch}",
            self._lanes[stage],
            self._duration_ns(self._costs[stage], task.work),
            phase=_PHASES[task.work],
            layer=f"stage {stage}",
            step=task.microbatch // self._plan.shape.microbatches,
            basis=Basis.MEASURED,
        )
        if task.work is not TaskKind.UPDATE:
            pack = self._packed("pack", stage, borders.giving_ns(virtual, task.work))
            give = self._gate("give", stage, self._send_ns(virtual, task.work))
            made = _Made(op, _first(take, unpack, op), _first(give, pack, op))
            self._made[virtual, task.work, task.microbatch] = made
        self._hold(op, self._costs[stage], task.work, stage)

    def _gate(self, name: str, stage: int, send_ns: int = 0) -> int | None:
        """Where a stage waits for its neighbours, before a task, or after it and sends."""
        if not self._wires.asked:
            return None
        wait = self.b.op(name, self._lanes[stage], 0, kind=OpKind.WAIT)
        if send_ns:
            self.b.op("send", self._lanes[stage], send_ns, kind=OpKind.HOST)
        return wait

    def _packed(self, name: str, stage: int, dur_ns: int) -> int | None:
        """What a message's packing takes of the stage's own thread."""
        if not dur_ns:
            return None
        return self.b.op(
            name, self._lanes[stage], dur_ns, layer=f"stage {stage}", basis=Basis.MEASURED
        )

    def _send_ns(self, virtual: int, work: TaskKind) -> int:
        """What the stage's own thread does for the message of a task."""
        count = self._plan.shape.stages
        border = virtual + 1 if work is TaskKind.FORWARD else virtual
        last = count * self._plan.shape.chunks
        sends = 0 < border < last and work in (TaskKind.FORWARD, TaskKind.BACKWARD)
        if not sends:
            return 0
        whole, down = self._costs[border % count].input_bytes, work is TaskKind.FORWARD
        size = self._wires.carried((border - 1) % count, whole, down=down)
        return round(self._wires.send_ns_per_byte * size)

    def messages(self, stage: int, task: Task) -> None:
        """What a task passes on; links carry messages in the order in which they are made."""
        shape = self._plan.shape
        virtual = task.chunk * shape.stages + stage
        if task.work is TaskKind.FORWARD:
            mine = self._made[virtual, TaskKind.FORWARD, task.microbatch].op
            self.b.link(mine, self._made[virtual, TaskKind.BACKWARD, task.microbatch].op)
            if virtual + 1 < shape.stages * shape.chunks:
                self._message(virtual, virtual + 1, TaskKind.FORWARD, task.microbatch)
        elif task.work is TaskKind.BACKWARD and virtual:
            self._message(virtual, virtual - 1, TaskKind.BACKWARD, task.microbatch)

    def _duration_ns(self, cost: LayerCost, work: TaskKind) -> int:
        chunks, zero = self._plan.shape.chunks, PipelineSchedule.ZERO_BUBBLE
        if work is TaskKind.FORWARD:
            return cost.forward_ns // chunks
        if work is TaskKind.UPDATE:
            return cost.update_ns + self._wires.all_reduce_ns(cost.weight_bytes, self._plan.width)
        again = cost.forward_ns if self._plan.recompute and work is TaskKind.BACKWARD else 0
        half = cost.backward_ns // 2 if self._plan.schedule is zero else cost.backward_ns
        return (half + again) // chunks

    def _hold(self, op: int, cost: LayerCost, work: TaskKind, stage: int) -> None:
        """Weights from a stage's first op on, activations from forward to the last backward."""
        if stage not in self._begun:
            self._begun.add(stage)
            versions = versions_kept(self._plan.schedule)
            self.b.allocate(op, versions * cost.weight_bytes, MemoryCategory.WEIGHTS)
        chunks, recompute = self._plan.shape.chunks, self._plan.recompute
        kept = (cost.input_bytes if recompute else cost.kept_bytes) // chunks
        split = self._plan.schedule is PipelineSchedule.ZERO_BUBBLE
        if work is TaskKind.FORWARD:
            self.b.allocate(op, kept, MemoryCategory.ACTIVATIONS)
        elif work is (TaskKind.WEIGHT if split else TaskKind.BACKWARD):
            self.b.allocate(op, -kept, MemoryCategory.ACTIVATIONS, at_end=True)
            if recompute:
                again = cost.kept_bytes // chunks
                self.b.allocate(op, again, MemoryCategory.TEMPORARY)
                self.b.allocate(op, -again, MemoryCategory.TEMPORARY, at_end=True)

    def _message(self, source: int, target: int, work: TaskKind, microbatch: int) -> None:
        """Between virtual stages; a message's size is that of the border between them."""
        count = self._plan.shape.stages
        whole, before = self._costs[max(source, target) % count].input_bytes, min(source, target)
        size = self._wires.carried(before % count, whole, down=source < target)
        made, waits = self._made[source, work, microbatch], self._made[target, work, microbatch]
        one, other = source % count, target % count
        if one == other:
            self.b.link(made.op, waits.op)
            return
        instance = self.b.instance()
        send = self._end(OpKind.SEND, self._lane(one, other, LaneKind.LINK_OUT), size, instance)
        receive = self._end(OpKind.RECV, self._lane(other, one, LaneKind.LINK_IN), size, instance)
        self.b.link(self._copied(made.give, one), send)
        self.b.link(self._copied(receive, other), waits.take, DepKind.MESSAGE)
        if self._wires.asked:
            self._in_turn((one, other), made.give, send, waits.take)

    def _in_turn(self, ends: tuple[int, int], give: int, send: int, take: int) -> None:
        """A message moves once its receiver has asked for it, which it does when it has taken the
        one before: a word that waits in the receiver's queue behind what it sends itself. The
        sender goes on at once, since the system keeps a copy; but to give a message it must be rid
        of the one before."""
        giver, taker = ends
        instance = self.b.instance()
        ask, asked = (
            self._end(kind, self._lane(*way, "words {}"), 0, instance)
            for kind, way in (
                (OpKind.SEND, (taker, giver, LaneKind.LINK_OUT)),
                (OpKind.RECV, (giver, taker, LaneKind.LINK_IN)),
            )
        )
        self.b.link(asked, send, DepKind.WAIT)
        if ends in self._last:
            before, taken = self._last[ends]
            self.b.link(before, give, DepKind.WAIT)
            self.b.link(taken, ask, DepKind.WAIT)
        self._last[ends] = (asked, take)

    def _end(self, kind: OpKind, lane: int, size_bytes: int, instance: int) -> int:
        return self.b.op(
            kind.name.lower(),
            lane,
            self._wires.message_ns(size_bytes),
            kind=kind,
            phase=Phase.COMMUNICATION,
            collective=Collective.POINT_TO_POINT,
            size_bytes=size_bytes,
            instance=instance,
            basis=self._wires.basis,
        )

    def _copied(self, op: int, rank: int) -> int:
        """The transport's copy of a message at one end, where it takes processor time."""
        if not self._wires.copy_ns:
            return op
        lane = self._lane(rank, rank, LaneKind.THREAD)
        return self.b.op("copy", lane, self._wires.copy_ns, kind=OpKind.COPY, after=[op])

    def _lane(self, rank: int, other: int, kind: LaneKind, what: str = "{}") -> int:
        key = (rank, other, kind, what)
        if key not in self._links:
            copies = kind is LaneKind.THREAD  # sends and receives in turn, whichever is ready
            self._links[key] = self.b.lane(
                rank,
                what.format(_NAMES[kind].format(other)),
                kind=kind,
                discipline=Discipline.PRIORITY if copies else Discipline.RECORDED,
            )
        return self._links[key]
