"""Replicas put together to pipelines: the model cut into stages, batches into micro-batches.

Schedules: `gpipe` (Huang et al., 2019), `1f1b` (PipeDream-Flush), `interleaved` with `chunks` of
layers a stage (Narayanan et al., 2021), `zero-bubble` (ZB-H1, Qi et al., 2024: a backward pass in
two halves) and `2bw` (PipeDream-2BW, Narayanan et al., 2021: no flush, weights one batch old).

The script stays as it is: each worker draws its batch and computes its loss, runs one stage for the
batches of as many workers as there are stages, and holds that stage's weights alone. `microbatches`
are of all these batches together, so that `stages` divides them; backward passes wait for the whole
output of a worker's batch, which is some passes later than in the schedule as it is written. A
model is cut where one tensor alone passes (torch.fx says where), into pieces that take equally
long, or where the layers begin that `begins` names. Checkpoints hold whole weights and state, which
one rank may save alone, and evaluate alone under torch.no_grad() or in eval(); norms that the
script clips by are of the whole model. Batch norms see micro-batches. Numbers are else the same,
but with 2bw. Over gloo, of models that take one tensor and give one.

Wrong where a micro-batch takes more than its share of a batch's work, as small ones do; where the
live job cuts elsewhere, for it knows more places than the recording does; where a backward pass
does not fall into equal halves; and by the Python of each task.
"""

from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from paceline.cost.in_parts import Parts, halves_known, in_parts
from paceline.errors import GraphError
from paceline.graph import Graph, OpKind
from paceline.graph.condense import Grain
from paceline.graph.pipelined import Doing, Shape, Turn, pipelined
from paceline.graph.replicas import replicas_of
from paceline.graph.stage_costs import job_cost
from paceline.runtime.run import Run
from paceline.runtime.stages import PipelineSchedule, TaskKind
from paceline.runtime.stages import Shape as Pipe
from paceline.runtime.stages.dealt import Dealt, Piped
from paceline.strategies.coded import CODECS
from paceline.strategies.seldom import EXCHANGES, SELDOM
from paceline.strategies.strategy import KEEPERS, Effect, Strategy, StrategyError

_DOING = {
    TaskKind.FORWARD: Doing.FORWARD,
    TaskKind.BACKWARD: Doing.BACKWARD,
    TaskKind.WEIGHT: Doing.WEIGHT,
    TaskKind.UPDATE: Doing.UPDATE,
}


_OVERLAPPING = 4  # batches that show how long one of them takes between others


@dataclass(frozen=True)
class Pipeline(Strategy):
    grain: ClassVar[Grain] = Grain.OP  # only there ops have a layer
    effect: ClassVar[Effect] = Effect.RELAXED  # 2bw; the others are exact
    conflicts: ClassVar[frozenset[str]] = (
        CODECS
        | EXCHANGES
        | KEEPERS
        | SELDOM
        | {
            *("autocast", "batchnorm_relu", "block_circulant", "border_topk", "bounded_loss"),
            *("buckets", "channels_last", "compiled", "early_update", "factored", "fp8"),
            *(
                "fully_sharded",
                "keep_gathered",
                "late_gradients",
                "low_rank",
                "overlapped_products",
            ),
            *("pipeline", "relu_masks", "restructured_norms", "substitute", "sufficient_factors"),
            *("tensor_parallel", "uneven_batches"),
        }
    )
    follows: ClassVar[frozenset[str]] = frozenset(
        {
            *("batch", "cache", "data_workers", "device", "format", "fused_optimizer"),
            *("prefetch", "scale", "workers"),
        }
    )
    applies: ClassVar[bool] = True

    stages: int
    microbatches: int = 0  # of all its workers' batches together; 0: each worker's batch is one
    schedule: str = "1f1b"
    chunks: int = 1  # of layers a stage; more only when interleaved
    begins: str = ""  # layers with which the second and later pieces begin, apart by |

    def __post_init__(self) -> None:
        if self.schedule not in {each.value for each in PipelineSchedule}:
            known = ", ".join(each.value for each in PipelineSchedule)
            raise StrategyError(f"no schedule is called {self.schedule!r}; there are {known}")
        if self.stages < 2:
            raise StrategyError(f"{self.stages} stages were asked for; give 2 stages or more")
        named = len(self._begins)
        if named not in (0, self.stages * self.chunks - 1):
            raise StrategyError(
                f"{self.stages * self.chunks} pieces begin at one layer fewer, the first left out; "
                f"{named} are named"
            )
        _ = self._dealt  # which refuses what cannot work

    def transform(self, graph: Graph) -> Graph:
        workers = replicas_of(graph)
        if workers % self.stages or workers != graph.world_size:
            raise GraphError(
                f"{graph.world_size} workers, {workers} of them replicas, cannot be put together "
                f"to pipelines of {self.stages}; record plain replicas, and add workers first, as "
                f"in workers(count={self.stages * -(-workers // self.stages)})"
            )
        steps = len(np.unique(graph.ops.step))
        steps = steps if self._dealt.flushes else max(steps, _OVERLAPPING)
        pipe, width = self._dealt.shape, workers // self.stages
        overlaps = not self._dealt.flushes
        shape = Shape(self.stages, width, pipe.microbatches, pipe.chunks, overlaps=overlaps)
        turns = {stage: list(self._turns(stage, steps)) for stage in range(self.stages)}
        each, every = self._dealt.each, pipe.microbatches
        parts = in_parts(graph, Parts(each, sums=(every - 1) / self.stages))
        cost = job_cost(parts, self.stages * self.chunks, self._begins)
        return pipelined(cost, shape, turns, graph.facts)

    @classmethod
    def choices(cls, graph: Graph) -> Iterator[Strategy]:
        """As many stages as divide the workers, with one and four micro-batches a worker."""
        count = replicas_of(graph)
        for stages in (2, 4, 8):
            if count % stages == 0:
                for schedule in ("1f1b", "zero-bubble", "2bw"):
                    for each in (1, 4):
                        yield cls(stages, each * stages, schedule)

    def rests_on(self, graph: Graph) -> Iterator[str]:
        if not graph.ops.size_bytes[graph.ops.kind == OpKind.SEND].all():
            yield "the recording does not tell all that passes between stages: it counts as free"
        if self._dealt.each > 1 and not halves_known(graph):
            yield (
                "micro-batches: by their share of the samples; run `paceline measure --for RUN "
                "--out FILE`, and predict with --calibration FILE"
            )

    def apply(self, run: Run) -> AbstractContextManager[None]:
        return run.exchange.with_stages(Piped(self._dealt, self._begins))

    @property
    def _begins(self) -> tuple[str, ...]:
        return tuple(each.strip() for each in self.begins.split("|") if each.strip())

    @property
    def _dealt(self) -> Dealt:
        shape = Pipe(self.stages, self.microbatches or self.stages, self.chunks)
        return Dealt(PipelineSchedule(self.schedule), shape)

    def _turns(self, stage: int, steps: int) -> Iterator[Turn]:
        """The stage's tasks; its worker's own batch is loaded, and its loss computed, between."""
        half = 0.5 if self.schedule == PipelineSchedule.ZERO_BUBBLE.value else 1.0
        dealt, loaded, lost = self._dealt, 0, 0
        for task in dealt.tasks(stage, steps):
            batch, last = dealt.batch_of(task.microbatch), dealt.shape.microbatches - 1
            if loaded == lost and (batch == loaded or not dealt.flushes) and loaded < steps:
                yield Turn(Doing.LOAD, loaded * dealt.shape.microbatches + last)
                loaded += 1
            if batch == lost and dealt.waits(task, stage):
                yield Turn(Doing.LOSS, task.microbatch)
                lost += 1
            share = 1.0 if task.work is TaskKind.FORWARD else half
            yield Turn(_DOING[task.work], task.microbatch, task.chunk, share)
