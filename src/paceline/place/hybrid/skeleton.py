"""A step's graph without durations: one rank per pipeline stage, and which price each op takes.

Many plans share one skeleton: it depends on the schedule, the stages, how many micro-batches are
drawn and what data ranks exchange, not on the model. Weights that are shared out for the step are
gathered beside the first forward pass and their gradients reduced beside the last backward pass of
each chunk, layer by layer; weights that are shared out always are gathered for each pass, one layer
ahead of its use. Where exchanges block the thread that asks for them nothing stands beside a pass:
each piece comes behind its weights, and the next one behind its gradients; a pipeline then reduces
a chunk's gradients behind its last pass, as PyTorch's stages do.
"""

from dataclasses import dataclass
from enum import Enum, IntEnum
from functools import lru_cache
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from paceline.graph import Basis, DepKind, Device, Discipline, Graph, LaneKind, OpKind, Phase
from paceline.graph.border import UNSCALED
from paceline.graph.builder import dependencies
from paceline.graph.graph import Lanes, OpColumns
from paceline.graph.kinds import NONE, UNPRICED, Collective, DeviceKind, DType
from paceline.graph.schedules import Schedule, Task, TaskKind, order


class Data(Enum):
    """What data ranks exchange, and when."""

    NOTHING = "nothing"
    ENDS = "beside the first and the last pass"
    EVERY = "beside every pass"
    AFTER = "after all passes"


class Role(IntEnum):
    """Which price an op takes."""

    FORWARD = 0
    BACKWARD = 1
    WEIGHT = 2
    SEND = 3
    GATHER = 4
    REDUCE = 5
    UPDATE = 6


class _Lane(IntEnum):
    STREAM = 0
    SEND_FORWARD = 1
    SEND_BACKWARD = 2
    DATA = 3


_KINDS: Final = {
    Role.FORWARD: (OpKind.COMPUTE, Phase.FORWARD),
    Role.BACKWARD: (OpKind.COMPUTE, Phase.BACKWARD),
    Role.WEIGHT: (OpKind.COMPUTE, Phase.BACKWARD),
    Role.SEND: (OpKind.TRANSFER, Phase.COMMUNICATION),
    Role.GATHER: (OpKind.TRANSFER, Phase.COMMUNICATION),
    Role.REDUCE: (OpKind.TRANSFER, Phase.COMMUNICATION),
    Role.UPDATE: (OpKind.COMPUTE, Phase.UPDATE),
}
_ROLES: Final = {
    TaskKind.FORWARD: Role.FORWARD,
    TaskKind.BACKWARD: Role.BACKWARD,
    TaskKind.WEIGHT: Role.WEIGHT,
}


@dataclass(frozen=True)
class Shape:
    """`parts` are the pieces into which a pass is cut where data ranks exchange beside it; on
    `threads` passes take a core of those that all share. Exchanges may be `blocking`."""

    schedule: Schedule
    stages: int
    microbatches: int
    chunks: int
    data: Data
    parts: int = 1
    threads: bool = False
    blocking: bool = False


@dataclass(frozen=True, eq=False)
class Skeleton:
    """`role` and `chunk` tell the price of each op, of which it takes one of `parts`."""

    graph: Graph
    role: NDArray[np.int64]
    chunk: NDArray[np.int64]
    parts: NDArray[np.int64]

    def durations(self, prices: NDArray[np.float64]) -> NDArray[np.int64]:
        """By op, from a table of roles x chunks in ns."""
        return np.rint(prices[self.role, self.chunk] / self.parts).astype(np.int64)


@lru_cache(maxsize=512)
def skeleton(shape: Shape) -> Skeleton:
    made = _Drawing(shape)
    orders = [
        order(shape.schedule, stage, shape.stages, shape.microbatches, shape.chunks)
        for stage in range(shape.stages)
    ]
    for stage, tasks in enumerate(orders):
        made.stage(stage, tasks)
    for stage, tasks in enumerate(orders):
        for task in tasks:
            made.message(stage, task)
    return made.skeleton()


class _Drawing:
    """The skeleton under construction."""

    def __init__(self, shape: Shape) -> None:
        self.shape = shape
        self.rows: list[tuple[int, int, int, int]] = []  # lane, role, chunk, parts
        self.links: list[tuple[int, int, DepKind, bool]] = []
        self.made: dict[tuple[TaskKind, int, int], tuple[int, int]] = {}  # first and last op
        self.held: dict[int, int] = {}  # by stage: the exchange that its next pass waits for

    def stage(self, stage: int, tasks: list[Task]) -> None:
        first, last = _ends(tasks)
        waits: list[int] = []
        for task in tasks:
            chunk = task.chunk * self.shape.stages + stage
            gathers, reduces = self._exchanges(task, task in first, task in last)
            behind = reduces and self.shape.blocking and self.shape.stages > 1
            ops, reduced = self._pass(stage, chunk, task, gathers, reduces and not behind)
            self.made[task.work, task.microbatch, chunk] = (ops[0], ops[-1])
            if behind and task in last:
                ops, reduced = self._behind(stage, chunk, ops)
            waits += reduced
            if self.shape.blocking:
                self._hold(stage, ops)
        self._finish(stage, waits)

    def message(self, stage: int, task: Task) -> None:
        """What a task waits for: its micro-batch from the chunk before, or from the one behind."""
        chunk, count = task.chunk * self.shape.stages + stage, self.shape.stages
        mine = self.made[task.work, task.microbatch, chunk]
        if task.work is TaskKind.FORWARD:
            self._passed_on(task, chunk, chunk + 1, mine[1], _Lane.SEND_FORWARD)
            if chunk + 1 == count * self.shape.chunks:
                behind = self.made[TaskKind.BACKWARD, task.microbatch, chunk]
                self._link(mine[1], behind[0])
        elif task.work is TaskKind.BACKWARD:
            self._passed_on(task, chunk, chunk - 1, mine[1], _Lane.SEND_BACKWARD)
        else:
            self._link(self.made[TaskKind.BACKWARD, task.microbatch, chunk][1], mine[0])

    def skeleton(self) -> Skeleton:
        table = np.array(self.rows, np.int64)
        return Skeleton(self._graph(table), table[:, 1], table[:, 2], table[:, 3])

    def _exchanges(self, task: Task, first: bool, last: bool) -> tuple[bool, bool]:
        data = self.shape.data
        if data is Data.EVERY:
            return task.work is not TaskKind.WEIGHT, last or task.work is not TaskKind.FORWARD
        ends = data is Data.ENDS
        return ends and first, ends and last

    def _pass(
        self, stage: int, chunk: int, task: Task, gathers: bool, reduces: bool
    ) -> tuple[list[int], list[int]]:
        """A pass in one piece, or in as many as are exchanged beside it."""
        parts = self.shape.parts if gathers or reduces else 1
        if self.shape.blocking and (gathers or reduces):
            return self._in_turn(stage, chunk, task, gathers, reduces)
        role, stream, data = _ROLES[task.work], stage * len(_Lane), stage * len(_Lane) + _Lane.DATA
        ops: list[int] = []
        reduced: list[int] = []
        ahead = self._op(data, Role.GATHER, chunk, parts) if gathers else NONE
        for part in range(parts):
            wanted = ahead
            if gathers and part + 1 < parts:
                ahead = self._op(data, Role.GATHER, chunk, parts)
                if part:
                    self._link(ops[part - 1], ahead)
            ops.append(self._op(stream, role, chunk, parts))
            if gathers:
                self._link(wanted, ops[-1])
            if reduces:
                reduced.append(self._op(data, Role.REDUCE, chunk, parts))
                self._link(ops[-1], reduced[-1])
        return ops, reduced

    def _in_turn(
        self, stage: int, chunk: int, task: Task, gathers: bool, reduces: bool
    ) -> tuple[list[int], list[int]]:
        """A pass that stands still while its ranks exchange. It begins with its first piece: what
        it waits for of other stages it waits for before it gathers."""
        role, stream, data = _ROLES[task.work], stage * len(_Lane), stage * len(_Lane) + _Lane.DATA
        ops: list[int] = []
        last = self._last_on(stream)
        for _ in range(self.shape.parts):
            for lane, kind, there in (
                (data, Role.GATHER, gathers), (stream, role, True), (data, Role.REDUCE, reduces)
            ):  # fmt: skip
                if not there:
                    continue
                ops.append(self._op(lane, kind, chunk, self.shape.parts))
                if last != NONE:
                    self._link(last, ops[-1])
                last = ops[-1]
        return ops, [last]

    def _behind(self, stage: int, chunk: int, ops: list[int]) -> tuple[list[int], list[int]]:
        """A chunk's gradients, reduced behind its last pass."""
        made = self._op(stage * len(_Lane) + _Lane.DATA, Role.REDUCE, chunk, 1)
        self._link(ops[-1], made)
        return [*ops, made], [made]

    def _hold(self, stage: int, ops: list[int]) -> None:
        """Whatever a stage does next waits for the exchange that ended its last pass."""
        if stage in self.held:
            self._link(self.held.pop(stage), ops[0])
        if self.rows[ops[-1]][1] == Role.REDUCE:
            self.held[stage] = ops[-1]

    def _last_on(self, lane: int) -> int:
        """The op that was drawn last on a lane; NONE where there is none."""
        found = (at for at in range(len(self.rows) - 1, -1, -1) if self.rows[at][0] == lane)
        return next(found, NONE)

    def _finish(self, stage: int, waits: list[int]) -> None:
        """Gradients that were not reduced beside a pass, the update, weights gathered behind it."""
        stream, data = stage * len(_Lane), stage * len(_Lane) + _Lane.DATA
        mine = [chunk * self.shape.stages + stage for chunk in range(self.shape.chunks)]
        after = self.shape.data is Data.AFTER
        last = self._last_on(stream)
        for chunk in mine if after else ():
            waits.append(self._op(data, Role.REDUCE, chunk, 1))
            self._link(last, waits[-1])
        update = NONE
        for chunk in mine:
            update = self._op(stream, Role.UPDATE, chunk, 1)
            for op in waits:
                self._link(op, update)
        for chunk in mine if after else ():
            self._link(update, self._op(data, Role.GATHER, chunk, 1))

    def _passed_on(self, task: Task, chunk: int, to: int, done: int, lane: _Lane) -> None:
        count = self.shape.stages
        if not 0 <= to < count * self.shape.chunks:
            return
        waits = self.made[task.work, task.microbatch, to][0]
        if count == 1:
            self._link(done, waits)
            return
        send = self._op(chunk % count * len(_Lane) + lane, Role.SEND, chunk, 1)
        self._link(done, send)
        self._link(send, waits)

    def _op(self, lane: int, role: Role, chunk: int, parts: int) -> int:
        self.rows.append((lane, role, chunk, parts))
        return len(self.rows) - 1

    def _link(self, src: int, op: int) -> None:
        self.links.append((op, src, DepKind.DATA, False))

    def _graph(self, table: NDArray[np.int64]) -> Graph:
        count, stages = len(table), self.shape.stages
        kinds = np.array([_KINDS[role] for role in Role], np.uint8)
        nothing: Any = np.full(count, NONE, np.int32)
        zeros = np.zeros(count, np.int64)
        return Graph(
            ops=OpColumns(
                rank=(table[:, 0] // len(_Lane)).astype(np.int32),
                lane=table[:, 0].astype(np.int32),
                kind=kinds[table[:, 1], 0],
                phase=kinds[table[:, 1], 1],
                dur_ns=np.full(count, UNPRICED, np.int64),
                size_bytes=zeros,
                flops=zeros,
                group=nothing,
                instance=nothing,
                collective=np.full(count, Collective.NONE, np.uint8),
                dtype=np.full(count, DType.NONE, np.uint8),
                name=table[:, 1].astype(np.int32),
                layer=nothing,
                tensor=nothing,
                priority=np.zeros(count, np.int32),
                step=np.zeros(count, np.int32),
                basis=np.full(count, Basis.FITTED, np.uint8),
                scale_ppb=np.full(count, UNSCALED, np.int64),
                work=nothing,
            ),
            deps=dependencies(count, self.links),
            lanes=_lanes(self.shape),
            devices=tuple(
                Device(f"stage {stage}", host=stage, kind=DeviceKind.GPU) for stage in range(stages)
            ),
            names=tuple(role.name.lower() for role in Role),
            meta={"source": f"plan, {self.shape.schedule.value}"},
        )


def _ends(tasks: list[Task]) -> tuple[set[Task], set[Task]]:
    """For each chunk its first forward pass, and the pass after which its gradients are whole."""
    split = any(task.work is TaskKind.WEIGHT for task in tasks)
    done = TaskKind.WEIGHT if split else TaskKind.BACKWARD
    there = [task for task in tasks if task.work is TaskKind.FORWARD]
    first = {task.chunk: task for task in reversed(there)}
    last = {task.chunk: task for task in tasks if task.work is done}
    return set(first.values()), set(last.values())


def _lanes(shape: Shape) -> Lanes:
    stages = shape.stages
    ranks = np.repeat(np.arange(stages, dtype=np.int32), len(_Lane))
    work = LaneKind.THREAD if shape.threads else LaneKind.STREAM
    kinds = (work, LaneKind.LINK_OUT, LaneKind.LINK_OUT, LaneKind.STREAM)
    return Lanes(
        ranks,
        ranks,
        np.tile(np.array(kinds, np.uint8), stages),
        np.full(stages * len(_Lane), Discipline.RECORDED, np.uint8),
        tuple(lane.name.lower().replace("_", " ") for lane in _Lane) * stages,
    )
