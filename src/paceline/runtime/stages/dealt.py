"""What each worker of a pipeline does, in order, where the batches stay the workers' own.

    batch = Dealt(PipelineSchedule.ONE_F_ONE_B, Shape(stages=2, microbatches=4))
    batch.tasks(stage=0)

An unchanged script has every worker draw a batch and compute its loss. So each worker runs one
stage, a pipeline takes the batches of as many workers as it has stages, cut into equally many
micro-batches each, and a worker can go back with a micro-batch no earlier than all outputs of its
batch have come to it. Backward passes therefore stand some forward passes later than in the
schedule as it is written; each worker leaves its list for its own loss and goes on behind it.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import count

from paceline.graph.schedules import Task, TaskKind
from paceline.runtime.stages.errors import PipelineError
from paceline.runtime.stages.schedule import PipelineSchedule, Shape, check, tasks

AHEAD, BACK = TaskKind.FORWARD, TaskKind.BACKWARD

_SETTLED = 3  # batches, of which the last is like all that would follow


@dataclass(frozen=True)
class Dealt:
    """A schedule on the batches of as many workers as there are stages."""

    schedule: PipelineSchedule
    shape: Shape

    def __post_init__(self) -> None:
        check(self.schedule, self.shape)
        if self.shape.microbatches % self.shape.stages:
            raise PipelineError(
                f"{self.shape.microbatches} micro-batches do not divide among the batches of "
                f"{self.shape.stages} workers, one for each stage; give a multiple"
            )

    @property
    def each(self) -> int:
        """Micro-batches of one worker's batch."""
        return self.shape.microbatches // self.shape.stages

    @property
    def flushes(self) -> bool:
        """Whether all work on a batch ends before the next begins."""
        return self.schedule is not PipelineSchedule.TWO_BUFFERED

    def batch_of(self, microbatch: int) -> int:
        return microbatch // self.shape.microbatches

    def owner(self, microbatch: int) -> int:
        """The stage whose worker has the micro-batch in its batch."""
        return microbatch % self.shape.microbatches // self.each

    def own(self, stage: int, batch: int) -> range:
        """The micro-batches of that worker's batch."""
        first = batch * self.shape.microbatches + stage * self.each
        return range(first, first + self.each)

    def waits(self, task: Task, stage: int) -> bool:
        """Whether the stage's worker cannot do it before it has the loss of that batch. Where all
        goes forward first, it stops there: the script may call its model again before it goes
        back."""
        mine = self.schedule is PipelineSchedule.GPIPE or self.owner(task.microbatch) == stage
        return task.work is BACK and mine

    def tasks(self, stage: int, batches: int = 1) -> list[Task]:
        """All that one stage does in so many batches, updates included."""
        if self.flushes:
            return [task for batch in range(batches) for task in self.tasks_of(stage, batch)]
        return list(_later(tasks(self.schedule, self.shape, stage, batches), self._lag()))

    def tasks_of(self, stage: int, batch: int) -> Iterator[Task]:
        """Of one batch that ends before the next begins."""
        first = batch * self.shape.microbatches
        for task in _one_batch(self.schedule, self.shape, stage, self._lag()):
            yield replace(task, microbatch=first + task.microbatch)

    def unending(self, stage: int) -> Iterator[Task]:
        """Of batches without end: where one batch runs into the next, each as the one before."""
        found = self.tasks(stage, _SETTLED)
        ends = [
            max(at for at, task in enumerate(found) if task == Task(AHEAD, last)) + 1
            for last in (batch * self.shape.microbatches - 1 for batch in (_SETTLED - 1, _SETTLED))
        ]
        yield from found[: ends[1]]  # behind its last forward pass the pipeline runs empty
        for batch in count(1):
            for task in found[ends[0] : ends[1]]:
                later = task.microbatch + batch * self.shape.microbatches
                yield replace(task, microbatch=later)

    def _lag(self) -> int:
        return _lag(self.schedule, self.shape)


@dataclass(frozen=True)
class Piped:
    """How a live job is to be a pipeline. `begins` names the layers with which the second and later
    pieces begin; without any, the job cuts itself into pieces that take equally long."""

    dealt: Dealt
    begins: tuple[str, ...] = ()


@cache
def _one_batch(schedule: PipelineSchedule, shape: Shape, stage: int, lag: int) -> tuple[Task, ...]:
    return tuple(_later(tasks(schedule, shape, stage, 1), lag))


@cache
def _lag(schedule: PipelineSchedule, shape: Shape) -> int:
    """By how many forward passes backward ones come later, on every stage alike: as few as let
    all workers come to their ends."""
    written = [tasks(schedule, shape, stage, 1) for stage in range(shape.stages)]
    return next(
        lag
        for lag in range(shape.microbatches * shape.chunks + 1)
        if _comes_to_its_end([list(_later(order, lag)) for order in written], shape)
    )


def _comes_to_its_end(orders: Sequence[Sequence[Task]], shape: Shape) -> bool:
    """Whether no worker waits for ever for another, in one batch."""
    each, stages = shape.microbatches // shape.stages, shape.stages
    end = stages * shape.chunks - 1
    leaves = [
        next(
            at
            for at, task in enumerate(order)
            if task.work is BACK and task.microbatch // each == w
        )
        for w, order in enumerate(orders)
    ]
    at, done = [0] * stages, set[tuple[TaskKind, int, int]]()

    def lost(worker: int) -> bool:
        """Its loss is computed where it leaves its list, of all outputs of its batch."""
        own = range(worker * each, (worker + 1) * each)
        return at[worker] >= leaves[worker] and all((AHEAD, end, each) in done for each in own)

    def ready(stage: int) -> bool:
        if at[stage] == len(orders[stage]):
            return False
        task = orders[stage][at[stage]]
        virtual = task.chunk * stages + stage
        if task.work is AHEAD:
            return not virtual or (AHEAD, virtual - 1, task.microbatch) in done
        if task.work is BACK and virtual == end:
            return lost(task.microbatch // each)
        return task.work is not BACK or (BACK, virtual + 1, task.microbatch) in done

    moved = True
    while moved:
        moved = False
        for stage, order in enumerate(orders):
            while ready(stage):
                task = order[at[stage]]
                done.add((task.work, task.chunk * stages + stage, task.microbatch))
                at[stage] += 1
                moved = True
    return all(place == len(order) for place, order in zip(at, orders))


def _later(order: list[Task], lag: int) -> Iterator[Task]:
    """All that follows forward passes follows `lag` more of them; the order of each kind stays."""
    ahead = [task for task in order if task.work is AHEAD]
    seen, given = 0, 0
    for task in order:
        if task.work is AHEAD:
            seen += 1
            continue
        wanted = min(seen + lag, len(ahead))
        yield from ahead[given:wanted]
        given = max(given, wanted)
        yield task
    yield from ahead[given:]
