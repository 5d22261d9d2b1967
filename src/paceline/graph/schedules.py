"""Pipeline schedules: in which order a stage works through the micro-batches of a batch.

    order(Schedule.ONE_F_ONE_B, stage=0, stages=2, microbatches=4, chunks=1)

Synthetic graphs, described transformers, the planner and the live runtime all read these lists, so
that a schedule means the same everywhere.

All stages take forwards in one order and backwards in one order, so that messages between two
stages arrive in the order in which they are waited for.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, IntEnum


class Schedule(Enum):
    """In which order a pipeline stage works through micro-batches."""

    GPIPE = "gpipe"
    ONE_F_ONE_B = "1f1b"
    INTERLEAVED = "interleaved"
    ZERO_BUBBLE = "zero-bubble"


class TaskKind(IntEnum):
    """What a task does. BACKWARD has both halves unless the schedule splits WEIGHT off."""

    FORWARD = 0
    BACKWARD = 1
    WEIGHT = 2
    UPDATE = 3


@dataclass(frozen=True)
class Task:
    """One piece of a stage's work: a pass of a micro-batch through one of the stage's chunks of
    layers. An UPDATE names the last micro-batch of its batch."""

    work: TaskKind
    microbatch: int
    chunk: int = 0


def order(
    schedule: Schedule, stage: int, stages: int, microbatches: int, chunks: int
) -> list[Task]:
    """The passes of one stage over one batch, in the order in which it runs them."""
    return _ORDERS[schedule](stage, stages, microbatches, chunks)


def in_flight(schedule: Schedule, stage: int, stages: int, microbatches: int, chunks: int) -> int:
    """Forward passes whose activations a stage keeps at once, in chunks."""
    most = {
        Schedule.GPIPE: microbatches,
        Schedule.ONE_F_ONE_B: stages - stage,
        Schedule.INTERLEAVED: (stages - 1 - stage) * 2 + (chunks - 1) * stages + 1,
        Schedule.ZERO_BUBBLE: stages,
    }[schedule]
    return min(most, microbatches * chunks)


def _gpipe(stage: int, stages: int, microbatches: int, chunks: int) -> list[Task]:
    """All forwards, then all backwards, the last micro-batch first (Huang et al. 2019)."""
    forward = [Task(TaskKind.FORWARD, i) for i in range(microbatches)]
    return forward + [Task(TaskKind.BACKWARD, i) for i in reversed(range(microbatches))]


def _one_f_one_b(stage: int, stages: int, microbatches: int, chunks: int) -> list[Task]:
    """As many forwards as there are stages below, then one and one (PipeDream-Flush)."""
    warm = min(stages - 1 - stage, microbatches)
    return _alternating(
        [Task(TaskKind.FORWARD, i) for i in range(microbatches)],
        [Task(TaskKind.BACKWARD, i) for i in range(microbatches)],
        warm,
    )


def _interleaved(stage: int, stages: int, microbatches: int, chunks: int) -> list[Task]:
    """Each stage holds several chunks of layers and turns between them (Narayanan et al. 2021)."""
    total = microbatches * chunks
    warm = min((stages - 1 - stage) * 2 + (chunks - 1) * stages, total)
    places = [_place(k, stages, chunks) for k in range(total)]
    forward = [Task(TaskKind.FORWARD, i, chunk) for i, chunk in places]
    backward = [Task(TaskKind.BACKWARD, i, chunks - 1 - chunk) for i, chunk in places]
    return _alternating(forward, backward, warm)


def _zero_bubble(stage: int, stages: int, microbatches: int, chunks: int) -> list[Task]:
    """1F1B whose weight gradients wait: stage s delays them by s micro-batches (ZB-H1, Qi 2024).

    Every stage then keeps equally many micro-batches, and the tail of weight passes fills what
    would be the bubble of the later stages.
    """
    found: list[Task] = []
    for block in _one_f_one_b(stage, stages, microbatches, chunks):
        found.append(block)
        late = block.microbatch - stage
        if block.work is TaskKind.BACKWARD and late >= 0:
            found.append(Task(TaskKind.WEIGHT, late))
    rest = range(max(0, microbatches - stage), microbatches)
    return found + [Task(TaskKind.WEIGHT, i) for i in rest]


def _alternating(forward: list[Task], backward: list[Task], warm: int) -> list[Task]:
    steady = [b for pair in zip(forward[warm:], backward) for b in pair]
    return forward[:warm] + steady + backward[len(forward) - warm :]


def _place(k: int, stages: int, chunks: int) -> tuple[int, int]:
    """(micro-batch, chunk) of the k-th forward: `stages` micro-batches a chunk, then the next."""
    group, within = divmod(k, stages * chunks)
    chunk, offset = divmod(within, stages)
    return group * stages + offset, chunk


_ORDERS: dict[Schedule, Callable[[int, int, int, int], list[Task]]] = {
    Schedule.GPIPE: _gpipe,
    Schedule.ONE_F_ONE_B: _one_f_one_b,
    Schedule.INTERLEAVED: _interleaved,
    Schedule.ZERO_BUBBLE: _zero_bubble,
}
