"""`describe`: a transformer's training step as a graph, one rank for each pipeline stage.

A stage's host launches each kernel, and waits for the device and for the neighbour's message before
each block, as Megatron-LM does. Activations go from stage to stage in lanes of their own; tensor-
parallel collectives lie in the compute stream; gradients are reduced after the last backward pass,
or layer by layer during it; with ZeRO 3 each layer's weights are gathered before each pass, as soon
as the block begins. All durations are unpriced: `paceline.cost.price` finds them.
"""

from dataclasses import dataclass, replace

import numpy as np

from paceline.graph.folding import FoldedGraph
from paceline.graph.graph import Graph
from paceline.graph.kinds import NONE, Axis, Collective, DepKind, MemoryCategory, OpKind, Phase
from paceline.graph.schedules import Task, TaskKind, order
from paceline.imagine.transformer.description import Degrees, Described, Training, Transformer
from paceline.imagine.transformer.finish import (
    ALL_GRADIENTS,
    finish_rows,
    layer_gradients,
    layer_weights,
)
from paceline.imagine.transformer.gradients import EMBEDDING, OUTPUT, Told
from paceline.imagine.transformer.kernels import Kernel, Kernels
from paceline.imagine.transformer.layout import Lane, Layout
from paceline.imagine.transformer.memory import Event, layer_events, stage_states
from paceline.imagine.transformer.rows import GradientEnd, OpRows, Template, TemplateOp

_PHASE = {
    TaskKind.FORWARD: Phase.FORWARD,
    TaskKind.BACKWARD: Phase.BACKWARD,
    TaskKind.WEIGHT: Phase.BACKWARD,
}


def describe(model: Transformer, degrees: Degrees, training: Training) -> FoldedGraph:
    """The step of a job given by its dimensions; ranks of a stage do the same, so one is drawn."""
    job = Described(model, degrees, training)
    made = _Assembly(job)
    for stage in range(degrees.pipeline):
        made.stage(stage)
    layout = made.layout
    return FoldedGraph(
        graph=made.graph(),
        class_of_rank=np.repeat(
            np.arange(layout.stages, dtype=np.int32), np.int32(layout.stage_ranks)
        ),
        representatives=tuple(layout.rank(stage) for stage in range(layout.stages)),
    )


@dataclass(frozen=True)
class _Shape:
    """What makes two blocks of ops alike; each is turned into a template once."""

    work: TaskKind
    first: bool  # holds the embedding
    last: bool  # holds the output
    receives: int  # stage it hears from, or NONE
    sends: int  # stage it tells, or NONE
    stage: int
    reduces: bool  # reduces each layer's gradients as soon as they are there


_EMBEDDING = (TaskKind.WEIGHT, NONE, NONE, NONE)
"""Key of the one instance that joins the first and the last stage."""


class _Assembly:
    """The graph under construction."""

    def __init__(self, job: Described) -> None:
        self.job, self.layout, self.rows = job, Layout(job), OpRows()
        self.kernels = Kernels(job)
        self.templates: dict[_Shape, Template] = {}
        self.messages: dict[tuple[TaskKind, int, int, int], int] = {}
        self.told = Told(job)

    def stage(self, stage: int) -> None:
        """All blocks of one stage, then the end of its step."""
        training, last = self.job.training, NONE
        blocks = order(
            training.schedule, stage, self.layout.stages, self.job.microbatches, training.chunks
        )
        self._states(stage)
        complete = _last_gradients(blocks)
        for block in blocks:
            reduces = training.overlap_gradients and block in complete
            first, last = self._block(stage, block, last, reduces=reduces)
            if block in complete:
                shape = self._shape(stage, block, reduces)
                self.told.block(first, self.templates[shape].ends, stage, block.chunk)
        self._finish(stage, last)

    def _states(self, stage: int) -> None:
        """Weights, gradients and optimizer state, held from the stage's first op on."""
        states, first = stage_states(self.job, stage), self.rows.count
        self.rows.hold(first, stage, states.weights, MemoryCategory.WEIGHTS)
        self.rows.hold(first, stage, states.gradients, MemoryCategory.GRADIENTS)
        self.rows.hold(first, stage, states.optimizer, MemoryCategory.OPTIMIZER)

    def graph(self) -> Graph:
        layout, d = self.layout, self.job.degrees
        return Graph(
            ops=self.told.named(self.rows),
            deps=self.rows.deps(),
            memory=self.rows.memory(),
            lanes=layout.lanes(),
            devices=layout.devices(),
            groups=layout.groups(),
            names=self.rows.names,
            facts=replace(self.told.facts(), world_size=d.world, siblings=layout.siblings()),
            meta={
                "source": "transformer described by its dimensions",
                "folded": "one rank stands for each pipeline stage",
            },
        )

    def _block(self, stage: int, block: Task, previous: int, *, reduces: bool) -> tuple[int, int]:
        """Stamp one block; returns the ids of its first op and of its last kernel."""
        shape = self._shape(stage, block, reduces)
        made = self.templates.get(shape)
        if made is None:
            made = self.templates[shape] = self._template(shape)
        first = self.rows.stamp(
            made, self.layout.rank(stage), self.layout.lane(stage, Lane(0)), stage
        )
        wait = first + (shape.receives != NONE)
        if previous != NONE:
            self.rows.link(wait, previous, DepKind.WAIT)
        if shape.receives != NONE:
            self._join(first, shape.receives, stage, block)
        if shape.sends != NONE:
            self._join(first + len(made) - 1, stage, shape.sends, block, sent=True)
        lanes = made.columns["lane"]
        return first, first + int(np.flatnonzero(lanes == Lane.STREAM)[-1])

    def _join(self, op: int, source: int, target: int, block: Task, *, sent: bool = False) -> None:
        """Give both sides of a message one instance id. A chunk's number is the receiver's."""
        wraps = block.work is TaskKind.FORWARD and target == 0 and source == self.layout.stages - 1
        unwraps = (
            block.work is TaskKind.BACKWARD and source == 0 and target == self.layout.stages - 1
        )
        chunk = block.chunk + (wraps - unwraps if sent else 0)
        key = (block.work, block.microbatch, chunk, target)
        self.rows.join(op, self.messages.setdefault(key, len(self.messages)))

    def _shape(self, stage: int, block: Task, reduces: bool) -> _Shape:
        stages, chunks = self.layout.stages, self.job.training.chunks
        first = stage == 0 and block.chunk == 0
        last = stage == stages - 1 and block.chunk == chunks - 1
        before, after = (stage - 1) % stages, (stage + 1) % stages
        hears, tells = (before, after) if block.work is TaskKind.FORWARD else (after, before)
        start, end = (first, last) if block.work is TaskKind.FORWARD else (last, first)
        silent = stages == 1 or block.work is TaskKind.WEIGHT
        return _Shape(
            block.work,
            first,
            last,
            NONE if start or silent else hears,
            NONE if end or silent else tells,
            stage,
            reduces,
        )

    def _template(self, shape: _Shape) -> Template:
        rows: list[TemplateOp] = []
        links: list[tuple[int, int, DepKind]] = []
        memory: list[Event] = []
        streams: list[list[int]] = []  # rows of each layer's kernels
        phase = _PHASE[shape.work]
        if shape.receives != NONE:
            rows.append(self._message(shape, received=True))
        rows.append(TemplateOp("wait", Lane.HOST, OpKind.WAIT, phase))
        if shape.receives != NONE:
            links.append((1, 0, DepKind.WAIT))
        for kernels in self._parts(shape):
            before = len(rows)
            self._layer(shape, kernels, rows, links)
            on = [i for i in range(before, len(rows)) if rows[i].lane == Lane.STREAM]
            memory += layer_events(self.job, shape.work, on[0], on[-1])
            streams.append(on)
        if shape.sends != NONE:
            end = max(i for i, row in enumerate(rows) if row.lane == Lane.STREAM)
            rows.append(self._message(shape, received=False))
            links.append((len(rows) - 1, end, DepKind.MESSAGE))
        ends = self._ends(shape, streams)
        if shape.reduces and shape.first:  # waits for the embedding's kernel too, which is the last
            own = next(end.row for end in ends if end.part == 0)
            reduced = max(i for i, row in enumerate(rows) if row.lane == Lane.DATA)
            links += [(reduced, own, DepKind.GRADIENT)] * (own != streams[-1][-1])
        return self.rows.template(rows, links, memory, ends)

    def _ends(self, shape: _Shape, streams: list[list[int]]) -> tuple[GradientEnd, ...]:
        """Which kernel of a backward pass is the last of each layer's gradient, of the embedding's
        and of the output's."""
        head = len(self.kernels.output(shape.work)) if shape.last else 0
        tail = len(self.kernels.input(shape.work)) if shape.first else 0
        ends = [GradientEnd(on[-1], len(streams) - 1 - k) for k, on in enumerate(streams)]
        if shape.first:
            own = streams[-1][-1 - tail]
            ends[-1] = GradientEnd(own, 0)
            ends.append(GradientEnd(streams[-1][-1] if tail else streams[-1][0], EMBEDDING))
        if shape.last and not shape.first:
            ends.append(GradientEnd(streams[0][head - 1], OUTPUT))
        return tuple(ends)

    def _layer(
        self,
        shape: _Shape,
        kernels: list[Kernel],
        rows: list[TemplateOp],
        links: list[tuple[int, int, DepKind]],
    ) -> None:
        """Launches and kernels of one layer; its weights come first where ZeRO 3 shards them."""
        gathers = self.job.training.zero_stage == 3 and self.job.degrees.data > 1
        wait = 1 if shape.receives != NONE else 0
        if gathers:
            rows.append(layer_weights(self.job, self.layout, shape.stage))
            links.append((len(rows) - 1, wait, DepKind.LAUNCH))
            links.append((len(rows) + 1, len(rows) - 1, DepKind.DATA))
        for kernel in kernels:
            rows.append(
                TemplateOp(f"launch {kernel.name}", Lane.HOST, OpKind.HOST, _PHASE[shape.work])
            )
            rows.append(self._kernel(kernel, shape.stage, _PHASE[shape.work]))
            links.append((len(rows) - 1, len(rows) - 2, DepKind.LAUNCH))
        if shape.reduces:
            rows.append(layer_gradients(self.job, self.layout, shape.stage))
            links.append((len(rows) - 1, len(rows) - 2, DepKind.GRADIENT))

    def _parts(self, shape: _Shape) -> list[list[Kernel]]:
        """Kernels layer by layer, in the order of the pass."""
        layers = [self.kernels.layer(shape.work) for _ in range(self.job.layers_a_chunk)]
        if shape.receives != NONE and self.job.degrees.tensor > 1:
            layers[0] = [*self._gathered(), *layers[0]]
        head = self.kernels.output(shape.work) if shape.last else []
        tail = self.kernels.input(shape.work) if shape.first else []
        if shape.work is TaskKind.FORWARD:
            head, tail = tail, head
        layers[0], layers[-1] = [*head, *layers[0]], layers[-1]
        layers[-1] = [*layers[-1], *tail]
        return layers

    def _gathered(self) -> list[Kernel]:
        """Each tensor rank receives its share of the activations; they are put together here."""
        size = self.kernels.token_bytes
        return [Kernel("gather activations", 0, size, Collective.ALL_GATHER, Axis.TENSOR)]

    def _kernel(self, kernel: Kernel, stage: int, phase: Phase) -> TemplateOp:
        talks = kernel.collective is not Collective.NONE
        return TemplateOp(
            kernel.name,
            Lane.STREAM,
            OpKind.COLLECTIVE if talks else OpKind.COMPUTE,
            Phase.COMMUNICATION if talks else phase,
            kernel.size_bytes,
            kernel.flops,
            self.layout.group(stage, kernel.axis) if talks else NONE,
            kernel.collective,
            kernel.dtype,
        )

    def _message(self, shape: _Shape, *, received: bool) -> TemplateOp:
        forward = shape.work is TaskKind.FORWARD
        lane = {
            (True, True): Lane.RECV_FORWARD,
            (True, False): Lane.SEND_FORWARD,
            (False, True): Lane.RECV_BACKWARD,
            (False, False): Lane.SEND_BACKWARD,
        }[forward, received]
        ends = (shape.receives, shape.stage) if received else (shape.stage, shape.sends)
        return TemplateOp(
            "activations" if forward else "gradients",
            lane,
            OpKind.RECV if received else OpKind.SEND,
            Phase.COMMUNICATION,
            self.kernels.token_bytes // self.job.degrees.tensor,
            group=self.layout.pair(*ends),
            collective=Collective.POINT_TO_POINT,
            dtype=self.job.model.dtype,
        )

    def _finish(self, stage: int, last: int) -> None:
        """Gradients, optimizer, weights: what follows the last backward pass."""
        rows, links, joined = finish_rows(self.job, self.layout, stage)
        reduced = [at for at, row in enumerate(rows) if row.name == ALL_GRADIENTS]
        first = self.rows.stamp(
            self.rows.template(rows, links),
            self.layout.rank(stage),
            self.layout.lane(stage, Lane(0)),
            stage,
        )
        self.rows.link(first, last, DepKind.WAIT)
        for at in reduced:
            for op in self.told.unreduced(stage):
                self.rows.link(first + at, op, DepKind.GRADIENT)
        for row in joined:
            self.rows.join(first + row, self.messages.setdefault(_EMBEDDING, len(self.messages)))


def _last_gradients(blocks: list[Task]) -> set[Task]:
    """For each chunk the block after which its gradients are complete."""
    split = any(block.work is TaskKind.WEIGHT for block in blocks)
    work = TaskKind.WEIGHT if split else TaskKind.BACKWARD
    return set({block.chunk: block for block in blocks if block.work is work}.values())
