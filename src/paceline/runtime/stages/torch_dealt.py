"""One worker of a pipeline whose script draws its own batch and computes its own loss.

Where the script calls its model, the worker hands its batch to the first stage and works through
its stage's tasks until the outputs of that batch have come back and its loss is needed to go on.
Where the script goes back, the worker hands on the gradient of its outputs and does the rest.
"""

import weakref
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from paceline.graph.schedules import Task, TaskKind
from paceline.runtime.exchange import ExchangeError
from paceline.runtime.stages.dealt import Dealt
from paceline.runtime.stages.schedule import PipelineSchedule
from paceline.runtime.stages.torch_mail import Look, Mail, Message
from paceline.runtime.stages.torch_stage import Stage
from paceline.runtime.stages.torch_versions import Leaves

AHEAD = 4
"""Tasks whose messages have room before their turn. The word that there is room travels against the
messages, and waits behind those of its own way: with two, steps over slow links took a fifth longer
than the links need."""

Looks = Sequence[Sequence[Look]]
"""Of a batch: by edge, the messages of a worker's micro-batches."""


@dataclass(frozen=True)
class StageWork:
    """What this worker computes, by chunk of its layers, and what it is told of it."""

    chunks: Sequence[Stage]
    leaves: Callable[[int, int], Leaves | None]  # of a chunk, for a batch
    update: Callable[["CalledBatch"], None]  # all of the batch has gone back here


class UpcomingTasks:
    """A stage's tasks, the next ones in sight."""

    def __init__(self, tasks: Iterator[Task]) -> None:
        self._tasks, self._seen = tasks, deque[Task]()

    def upcoming(self, count: int) -> list[Task]:
        self._seen.extend(islice(self._tasks, max(0, count - len(self._seen))))
        return list(islice(self._seen, count))

    def next(self) -> Task:
        self.upcoming(1)
        return self._seen.popleft()


@dataclass(frozen=True, eq=False)
class CalledBatch:
    """One call of the model, as the script made it."""

    number: int
    turns: UpcomingTasks
    looks: Looks
    casts: torch.dtype | None  # of autocast
    reduces: bool  # with gradients that are to be those of all workers


class Dealing:
    """This worker's part, batch after batch."""

    def __init__(self, dealt: Dealt, stage: int, work: StageWork, mail: Mail) -> None:
        self._dealt, self._stage, self._work, self._mail = dealt, stage, work, mail
        self._stages = dealt.shape.stages
        self._end = self._stages * dealt.shape.chunks  # the edge behind the last chunk
        self._batches = weakref.WeakValueDictionary[int, CalledBatch]()
        self._handed: dict[int, CalledBatch] = {}  # gone back in the script, and not yet here
        self._open = set[int]()  # called, and not gone back
        self.begun = 0
        self._anchor = torch.zeros((), requires_grad=True)
        self._unending = None if dealt.flushes else UpcomingTasks(dealt.unending(stage))

    def forward(self, given: Tensor, looks: Looks, reduces: bool) -> Tensor:
        """What the model makes of this worker's batch."""
        batch = self._begin(looks, reduces)
        own = self._dealt.own(self._stage, batch.number)
        for microbatch, part in zip(own, given.tensor_split(self._dealt.each)):
            self._send(Message(0, False, microbatch), part)
        outputs = [Message(self._end, False, microbatch) for microbatch in own]
        for message in outputs:
            self._expect(message)
        self._go_on(batch.turns)
        made: Tensor = _Handed.apply(self, batch, self._anchor, *map(self._take, outputs))
        return made

    def back(self, batch: CalledBatch, gradient: Tensor) -> None:
        """Of a batch's outputs, as the script's loss gives it."""
        if batch.number not in self._open:
            raise ExchangeError(
                "the script goes back twice through one batch, and a pipeline does so once; leave "
                "pipeline out"
            )
        self._open.remove(batch.number)
        self._handed[batch.number] = batch
        shares = gradient / self._stages  # a stage adds up the batches of as many workers
        own = self._dealt.own(self._stage, batch.number)
        for microbatch, part in zip(own, shares.tensor_split(self._dealt.each)):
            self._send(Message(self._end, True, microbatch), part)
        if self._dealt.flushes:
            self._go_on(batch.turns)
            self._mail.drain()

    def end(self) -> None:
        """What batches that run into one another have left to do; all workers come here."""
        if self._unending is not None and self.begun and not self._open:
            while True:
                task = self._unending.next()
                if self._dealt.batch_of(task.microbatch) < self.begun:
                    self._do(task)
                    if self.begun - 1 not in self._handed:
                        break
        self._mail.drain()

    def _begin(self, looks: Looks, reduces: bool) -> CalledBatch:
        gathers = self._dealt.schedule is PipelineSchedule.GPIPE
        if self._open and not gathers:
            raise ExchangeError(
                "the script calls its model again before it has gone back, which this schedule "
                "cannot follow; take schedule='gpipe', or leave pipeline out"
            )
        number, self.begun = self.begun, self.begun + 1
        turns = self._unending or UpcomingTasks(self._dealt.tasks_of(self._stage, number))
        casts = torch.get_autocast_dtype("cpu") if torch.is_autocast_enabled("cpu") else None
        batch = CalledBatch(number, turns, looks, casts, reduces)
        self._batches[number] = batch
        self._open.add(number)
        if gathers:
            weakref.finalize(batch, self._forget, number).atexit = False
        return batch

    def _forget(self, number: int) -> None:
        """A batch that the script has dropped, if it never went back."""
        if number in self._open:
            self._open.remove(number)
            for microbatch in range(*self._microbatches(number)):
                for chunk in self._work.chunks:
                    chunk.forget(microbatch)

    def _microbatches(self, number: int) -> tuple[int, int]:
        count = self._dealt.shape.microbatches
        return number * count, (number + 1) * count

    def _go_on(self, turns: UpcomingTasks) -> None:
        """Up to the first task that needs a loss which this script has not computed."""
        while upcoming := turns.upcoming(AHEAD):
            if self._waits(upcoming[0]):
                return
            for task in upcoming:
                if self._dealt.batch_of(task.microbatch) in self._batches:
                    self._prepare(task)
            self._do(turns.next())

    def _waits(self, task: Task) -> bool:
        handed = self._dealt.batch_of(task.microbatch) in self._handed
        return not handed and self._dealt.waits(task, self._stage)

    def _prepare(self, task: Task) -> None:
        edge = self._virtual(task)
        if task.work is TaskKind.FORWARD:
            self._expect(Message(edge, False, task.microbatch))
        elif task.work is TaskKind.BACKWARD:
            self._expect(Message(edge + 1, True, task.microbatch))

    def _do(self, task: Task) -> None:
        _DO[task.work](self, task)

    def _forward(self, task: Task) -> None:
        edge, batch = self._virtual(task), self._batch(task)
        given = self._take(Message(edge, False, task.microbatch))
        if edge:
            given.requires_grad_()
        with torch.enable_grad(), torch.autocast("cpu", batch.casts, batch.casts is not None):
            made = self._work.chunks[task.chunk].forward(
                task.microbatch, given, self._work.leaves(task.chunk, batch.number)
            )
        self._send(Message(edge + 1, False, task.microbatch), made)

    def _backward(self, task: Task) -> None:
        edge, stage = self._virtual(task), self._work.chunks[task.chunk]
        gradient = self._take(Message(edge + 1, True, task.microbatch))
        halves = self._dealt.schedule is PipelineSchedule.ZERO_BUBBLE
        goes = stage.backward_input if halves else stage.backward
        passed = goes(task.microbatch, gradient)
        if edge:
            assert passed is not None, "a stage must use its input"
            self._send(Message(edge, True, task.microbatch), passed)

    def _weigh(self, task: Task) -> None:
        self._work.chunks[task.chunk].backward_weight(task.microbatch)

    def _update(self, task: Task) -> None:
        batch = self._batch(task)
        self._work.update(batch)
        if not self._dealt.flushes:  # what goes on to later batches has taken those
            self._mail.drain(before=(batch.number - 1) * self._dealt.shape.microbatches)
        del self._handed[batch.number]

    def _batch(self, task: Task) -> CalledBatch:
        return self._batches[self._dealt.batch_of(task.microbatch)]

    def _virtual(self, task: Task) -> int:
        return task.chunk * self._stages + self._stage

    def _expect(self, message: Message) -> None:
        self._mail.expect(message, self._end_of(message, message.back), self._look(message))

    def _take(self, message: Message) -> Tensor:
        return self._mail.take(message, self._end_of(message, message.back), self._look(message))

    def _send(self, message: Message, tensor: Tensor) -> None:
        self._mail.send(message, self._end_of(message, not message.back), tensor)

    def _end_of(self, message: Message, behind: bool) -> int:
        """The worker at that side of a message's edge."""
        chunk = message.edge if behind else message.edge - 1
        if 0 <= chunk < self._end:
            return chunk % self._stages
        return self._dealt.owner(message.microbatch)

    def _look(self, message: Message) -> Look:
        batch = self._batches[self._dealt.batch_of(message.microbatch)]
        return batch.looks[message.edge][message.microbatch % self._dealt.each]


_DO: dict[TaskKind, Callable[[Dealing, Task], None]] = {
    TaskKind.FORWARD: Dealing._forward,
    TaskKind.BACKWARD: Dealing._backward,
    TaskKind.WEIGHT: Dealing._weigh,
    TaskKind.UPDATE: Dealing._update,
}


class _Handed(torch.autograd.Function):  # type: ignore[misc]
    """A batch's outputs, for the script; their gradient, for the pipeline."""

    @staticmethod
    def forward(
        context: Any, dealing: Dealing, batch: CalledBatch, anchor: Tensor, *outputs: Tensor
    ) -> Tensor:
        context.dealing, context.batch = dealing, batch
        return torch.cat(outputs)

    @staticmethod
    @once_differentiable  # type: ignore[untyped-decorator]
    def backward(context: Any, gradient: Tensor) -> Any:
        context.dealing.back(context.batch, gradient)
        return None, None, None, *(None for _ in range(len(context.needs_input_grad) - 3))
