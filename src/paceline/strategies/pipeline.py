"""Replicas put together to pipelines: the model cut into stages, batches into micro-batches.

Schedules: `gpipe` (Huang et al., 2019), `1f1b` (PipeDream-Flush), `interleaved` with `chunks` of
layers a stage (Narayanan et al., 2021), `zero-bubble` (ZB-H1, Qi et al., 2024: a backward pass in
two halves) and `2bw` (PipeDream-2BW, Narayanan et al., 2021: no flush, weights one batch old). The
batch of all workers together stays. Stages have about equal recorded work. Wrong where a
micro-batch takes more than its share of a batch's work, where a backward pass does not fall into
equal halves, and without `activation_bytes`, for then messages count as free.
"""

from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from paceline.errors import GraphError
from paceline.graph import Graph, Phase
from paceline.graph.condense import Grain
from paceline.graph.pipelined import Shape, Turn, pipelined
from paceline.graph.replicas import replicas_of
from paceline.graph.stage_costs import job_cost
from paceline.runtime.run import Run
from paceline.runtime.stages import PipelineSchedule, Task, TaskKind, tasks
from paceline.runtime.stages import Shape as Pipe
from paceline.runtime.stages.dealt import Dealt, Piped
from paceline.strategies.strategy import Effect, Strategy, StrategyError

_PHASES = {
    TaskKind.FORWARD: Phase.FORWARD,
    TaskKind.BACKWARD: Phase.BACKWARD,
    TaskKind.WEIGHT: Phase.BACKWARD,
    TaskKind.UPDATE: Phase.UPDATE,
}


@dataclass(frozen=True)
class Pipeline(Strategy):
    grain: ClassVar[Grain] = Grain.OP  # only there ops have a layer
    effect: ClassVar[Effect] = Effect.RELAXED  # 2bw; the others are exact
    conflicts: ClassVar[frozenset[str]] = frozenset({"pipeline", "tensor_parallel"})
    applies: ClassVar[bool] = True

    stages: int
    microbatches: int = 4  # of a pipeline's batch
    schedule: str = "1f1b"
    chunks: int = 1  # of layers a stage; more only when interleaved
    activation_bytes: int = 0  # at a border between stages, of one worker's recorded batch
    begins: str = ""  # layers with which the second and later pieces begin, apart by |

    def __post_init__(self) -> None:
        if self.schedule not in {each.value for each in PipelineSchedule}:
            known = ", ".join(each.value for each in PipelineSchedule)
            raise StrategyError(f"no schedule is called {self.schedule!r}; there are {known}")
        if self.stages < 2 or self.activation_bytes < 0:
            raise StrategyError(
                f"{self.stages} stages and {self.activation_bytes} bytes were asked for; give 2 "
                "stages or more, and bytes of 0 or more"
            )
        _ = self._dealt

    @property
    def _dealt(self) -> Dealt:
        return Dealt(PipelineSchedule(self.schedule), self._pipe)

    def apply(self, run: Run) -> AbstractContextManager[None]:
        begins = tuple(each.strip() for each in self.begins.split("|") if each.strip())
        return run.exchange.with_stages(Piped(self._dealt, begins))

    @property
    def _pipe(self) -> Pipe:
        return Pipe(self.stages, self.microbatches, self.chunks)

    def transform(self, graph: Graph) -> Graph:
        workers = replicas_of(graph)
        if workers % self.stages or workers != graph.world_size:
            raise GraphError(
                f"{graph.world_size} workers, {workers} of them replicas, cannot be put together "
                f"to pipelines of {self.stages}; record plain replicas, and add workers first, as "
                f"in workers(count={self.stages * -(-workers // self.stages)})"
            )
        width, steps = workers // self.stages, len(np.unique(graph.ops.step))
        shape = Shape(self.stages, width, self.microbatches, self.chunks, self.activation_bytes)
        turns = {stage: self._turns(stage, steps) for stage in range(self.stages)}
        return pipelined(job_cost(graph, self.stages * self.chunks), shape, turns)

    @classmethod
    def choices(cls, graph: Graph) -> Iterator[Strategy]:
        """As many stages as divide the workers, with four micro-batches a stage."""
        count = replicas_of(graph)
        for stages in (2, 4, 8):
            if count % stages == 0:
                for schedule in ("1f1b", "zero-bubble", "2bw"):
                    yield cls(stages, 4 * stages, schedule)

    def _turns(self, stage: int, steps: int) -> list[Turn]:
        schedule = PipelineSchedule(self.schedule)
        half = 0.5 if schedule is PipelineSchedule.ZERO_BUBBLE else 1.0
        return [_turn(task, half) for task in tasks(schedule, self._pipe, stage, steps)]


def _turn(task: Task, half: float) -> Turn:
    """The half of a backward pass that makes gradients of weights passes nothing on."""
    share = 1.0 if task.work is TaskKind.FORWARD else half
    passes = task.work in (TaskKind.FORWARD, TaskKind.BACKWARD)
    return Turn(_PHASES[task.work], task.microbatch, task.chunk, share, passes)
