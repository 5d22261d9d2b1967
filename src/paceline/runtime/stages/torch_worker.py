"""A worker of a pipeline: one stage, trained batch after batch under a schedule.

    job = PipelineJob(PipelineSchedule.TWO_BUFFERED, microbatches=4)
    worker = Worker(job, seat, stage, Adam(...), data)
    losses = worker.train(batches=100)

GPipe and 1F1B flush at the end of each batch. 2BW does not: its stages run on into the next batch
with the older of two weight versions (PipeDream-2BW, Narayanan et al. 2021), until `train` ends.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor, nn

from paceline.graph.schedules import Task, TaskKind
from paceline.runtime.stages.errors import PipelineError
from paceline.runtime.stages.schedule import (
    PipelineSchedule,
    Shape,
    check,
    tasks,
    version_used,
    versions_kept,
)
from paceline.runtime.stages.torch_averaging import average
from paceline.runtime.stages.torch_border import Before, Behind, Border, Open
from paceline.runtime.stages.torch_links import Groups, Inbox, Outbox, Seat, groups
from paceline.runtime.stages.torch_stage import Loss, Piece, Stage
from paceline.runtime.stages.torch_versions import WeightVersions


class Data(Protocol):
    """Micro-batches by number, counted from the start of training (of this replica's share)."""

    def inputs(self, microbatch: int) -> Tensor: ...

    def targets(self, microbatch: int) -> Tensor: ...


@dataclass(frozen=True)
class PipelineJob:
    """How the pipeline works."""

    schedule: PipelineSchedule
    microbatches: int
    recompute: bool = False
    borders: tuple[Border | None, ...] = ()
    """Behind each stage but the last: where one stands, only the largest activations pass."""

    def behind(self, stage: int) -> Border | None:
        return self.borders[stage] if self.borders else None


@dataclass(frozen=True)
class StageModule:
    """This worker's stage of the model, and the loss, which the last stage computes."""

    module: nn.Module
    loss: Loss


Watch = Callable[[Task], None]


class Worker:
    """Runs one stage; every worker of the job makes one and calls `train` alike."""

    def __init__(
        self,
        job: PipelineJob,
        seat: Seat,
        part: StageModule,
        optimizer: torch.optim.Optimizer,
        data: Data,
        *,
        among: Groups | None = None,
        watch: Watch | None = None,
    ) -> None:
        check(job.schedule, Shape(seat.stages, job.microbatches))
        self.job, self.seat, self.optimizer, self.module = job, seat, optimizer, part.module
        self.batches_done = 0
        self.versions = WeightVersions(part.module, versions_kept(job.schedule))
        self._data, self.watch = data, watch
        self._stage = Stage(
            Piece(
                part.module,
                part.loss if seat.last else None,
                1 / job.microbatches,
                job.recompute,
            )
        )
        self._device = next((p.device for p in part.module.parameters()), torch.device("cpu"))
        self._among = among or groups(seat)
        self._connect()
        if job.borders and len(job.borders) != seat.stages - 1:
            raise PipelineError(
                f"{len(job.borders)} borders for {seat.stages} stages; give one behind each stage "
                "but the last, or none"
            )
        above = None if seat.first else job.behind(seat.stage - 1)
        below = None if seat.last else job.behind(seat.stage)
        self.above = Behind(above) if above else Open()
        self.below = Before(below) if below else Open()
        self._losses: list[float] = []

    def train(self, batches: int) -> list[float]:
        """Train on the next batches; the mean loss of each on the last stage, nothing elsewhere."""
        shape = Shape(self.seat.stages, self.job.microbatches)
        first, self._losses = self.batches_done * self.job.microbatches, []
        self._expect(batches * self.job.microbatches)
        for task in tasks(self.job.schedule, shape, self.seat.stage, batches):
            _DO[task.work](self, first + task.microbatch)
            if self.watch is not None:
                self.watch(task)
        self._after.drain()
        self._before.drain()
        size = self.job.microbatches
        return [sum(self._losses[i : i + size]) / size for i in range(0, len(self._losses), size)]

    def _connect(self) -> None:
        above, below, among = self.seat.rank - 1, self.seat.rank + 1, self._among
        self._from_before, self._before = Inbox(above, among.down), Outbox(above, among.up)
        self._from_after, self._after = Inbox(below, among.up), Outbox(below, among.down)

    def _expect(self, microbatches: int) -> None:
        self._from_before.expect(0 if self.seat.first else microbatches)
        self._from_after.expect(0 if self.seat.last else microbatches)

    def _forward(self, microbatch: int) -> None:
        if self.seat.first:
            given = self._data.inputs(microbatch)
        else:
            came = self._from_before.take(self._device)
            given = self.above.open(came, microbatch).requires_grad_()
        target = self._data.targets(microbatch) if self.seat.last else None
        made = self._stage.forward(
            microbatch, given, self.versions.leaves(self._version(microbatch)), target
        )
        if self.seat.last:
            self._losses.append(made.item())
        else:
            message = self.below.close(made, microbatch)
            self._from_after.learn(self.below.gradient_like(made, microbatch))
            self._after.send(message, announce=True)

    def _backward(self, microbatch: int) -> None:
        gradient = None
        if not self.seat.last:
            gradient = self.below.gradient(self._from_after.take(self._device), microbatch)
        passed = self._stage.backward(microbatch, gradient)
        if not self.seat.first:
            assert passed is not None, "a stage must use its input"
            self._before.send(self.above.masked(passed, microbatch))

    def _update(self, microbatch: int) -> None:
        used = self._version(microbatch)
        if self.seat.replicas > 1:
            average(self.versions.gradients(used), self._among.replicas, self.seat.replicas)
        self.versions.update(self.optimizer, used)
        self.batches_done += 1

    def _version(self, microbatch: int) -> int:
        return version_used(self.job.schedule, microbatch, self.job.microbatches)


_DO: dict[TaskKind, Callable[[Worker, int], None]] = {
    TaskKind.FORWARD: Worker._forward,
    TaskKind.BACKWARD: Worker._backward,
    TaskKind.UPDATE: Worker._update,
}
