"""What each stage of a pipeline does, in order, over several batches, and on which weights.

    tasks(PipelineSchedule.TWO_BUFFERED, Shape(stages=2, microbatches=4), stage=0, batches=3)

The planner draws its graphs from these lists and the runtime works through them, so that both
always mean the same. Micro-batches count from 0 over all batches of the run.
"""

from dataclasses import dataclass, replace
from enum import Enum

from paceline.graph.schedules import Schedule, Task, TaskKind, order
from paceline.runtime.stages.errors import PipelineError


class PipelineSchedule(Enum):
    """In which order stages work, and which weights they use."""

    GPIPE = "gpipe"  # all forwards, all backwards, flush (Huang et al. 2019)
    ONE_F_ONE_B = "1f1b"  # one forward, one backward, flush: PipeDream-Flush
    INTERLEAVED = "interleaved"  # several chunks of layers a stage (Narayanan et al. 2021)
    ZERO_BUBBLE = "zero-bubble"  # weight gradients fill the bubble: ZB-H1 (Qi et al. 2024)
    TWO_BUFFERED = "2bw"  # 1F1B without flush on two weight versions (PipeDream-2BW)


@dataclass(frozen=True)
class Shape:
    """How many stages, micro-batches a batch, and chunks of layers a stage."""

    stages: int
    microbatches: int
    chunks: int = 1

    def __post_init__(self) -> None:
        if min(self.stages, self.microbatches, self.chunks) < 1:
            raise PipelineError(
                f"a pipeline has {self.stages} stages, {self.microbatches} micro-batches and "
                f"{self.chunks} chunks a stage; give 1 or more of each"
            )


def tasks(schedule: PipelineSchedule, shape: Shape, stage: int, batches: int) -> list[Task]:
    """All that one stage does in `batches` batches, in order."""
    check(schedule, shape)
    if schedule is PipelineSchedule.TWO_BUFFERED:
        return _without_flush(shape, stage, batches)
    return [task for batch in range(batches) for task in _flushed(schedule, shape, stage, batch)]


def version_used(schedule: PipelineSchedule, microbatch: int, microbatches: int) -> int:
    """Which weights a micro-batch (from 0) uses, forward and backward: as many updates old.

    2BW: max(floor((k - 1) / m) - 1, 0) for the k-th micro-batch; the others use the newest.
    """
    batch = microbatch // microbatches
    return max(batch - 1, 0) if schedule is PipelineSchedule.TWO_BUFFERED else batch


def versions_kept(schedule: PipelineSchedule) -> int:
    """Copies of the weights on a stage."""
    return 2 if schedule is PipelineSchedule.TWO_BUFFERED else 1


def in_flight(schedule: PipelineSchedule, shape: Shape, stage: int) -> int:
    """The most passes (micro-batches times chunks) whose activations a stage keeps at once."""
    behind = shape.stages - 1 - stage
    most = {
        PipelineSchedule.GPIPE: shape.microbatches,
        PipelineSchedule.ONE_F_ONE_B: behind + 1,
        PipelineSchedule.INTERLEAVED: 2 * behind + (shape.chunks - 1) * shape.stages + 1,
        PipelineSchedule.ZERO_BUBBLE: shape.stages,  # waits for weight gradients level the stages
        PipelineSchedule.TWO_BUFFERED: behind + 1,
    }
    return min(most[schedule], shape.microbatches * shape.chunks)


def check(schedule: PipelineSchedule, shape: Shape) -> None:
    """Refuse shapes under which the schedule cannot work."""
    two = schedule is PipelineSchedule.TWO_BUFFERED
    if two and shape.microbatches < shape.stages:
        raise PipelineError(
            f"2BW with {shape.stages} stages needs at least {shape.stages} micro-batches a batch, "
            f"so that two weight versions are enough; given are {shape.microbatches}. Cut the "
            "batch into more micro-batches or use fewer stages."
        )
    interleaved = schedule is PipelineSchedule.INTERLEAVED
    if shape.chunks > 1 and not interleaved:
        raise PipelineError(
            f"{shape.chunks} chunks a stage need the interleaved schedule; given is "
            f"{schedule.value}. Give 1 chunk or --schedule interleaved."
        )
    if interleaved and shape.stages > 1 and shape.microbatches % shape.stages:
        raise PipelineError(
            f"the interleaved schedule turns through {shape.stages} stages; {shape.microbatches} "
            "micro-batches do not divide by that. Give a multiple."
        )


_ORDERS = {
    PipelineSchedule.GPIPE: Schedule.GPIPE,
    PipelineSchedule.ONE_F_ONE_B: Schedule.ONE_F_ONE_B,
    PipelineSchedule.INTERLEAVED: Schedule.INTERLEAVED,
    PipelineSchedule.ZERO_BUBBLE: Schedule.ZERO_BUBBLE,
}


def _flushed(schedule: PipelineSchedule, shape: Shape, stage: int, batch: int) -> list[Task]:
    """One batch to its end."""
    first = batch * shape.microbatches
    passes = order(_ORDERS[schedule], stage, shape.stages, shape.microbatches, shape.chunks)
    done = [replace(task, microbatch=first + task.microbatch) for task in passes]
    return [*done, Task(TaskKind.UPDATE, first + shape.microbatches - 1)]


def _without_flush(shape: Shape, stage: int, batches: int) -> list[Task]:
    """1F1B over all batches as if they were one; an update after each batch's last backward."""
    total = batches * shape.microbatches
    found = []
    for task in order(Schedule.ONE_F_ONE_B, stage, shape.stages, total, 1):
        found.append(task)
        ends_batch = (task.microbatch + 1) % shape.microbatches == 0
        if task.work is TaskKind.BACKWARD and ends_batch:
            found.append(Task(TaskKind.UPDATE, task.microbatch))
    return found
