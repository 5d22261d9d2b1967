"""Schedules on batches that stay the workers' own: who does what, and nobody waits for ever."""

from itertools import islice

import pytest
from hypothesis import given
from hypothesis import strategies as draw

from paceline.graph.schedules import Task, TaskKind
from paceline.runtime.stages import PipelineError, PipelineSchedule, Shape
from paceline.runtime.stages.dealt import Dealt

LETTERS = {
    TaskKind.FORWARD: "F",
    TaskKind.BACKWARD: "B",
    TaskKind.WEIGHT: "W",
    TaskKind.UPDATE: "U",
}


def written(dealt: Dealt, stage: int) -> str:
    return " ".join(f"{LETTERS[task.work]}{task.microbatch}" for task in dealt.tasks(stage))


def dealt(schedule: str, stages: int, each: int, chunks: int = 1) -> Dealt:
    return Dealt(PipelineSchedule(schedule), Shape(stages, stages * each, chunks))


def test_with_one_microbatch_a_worker_the_schedule_is_as_written() -> None:
    assert written(dealt("1f1b", 2, 1), 0) == "F0 F1 B0 B1 U1"
    assert written(dealt("1f1b", 2, 1), 1) == "F0 B0 F1 B1 U1"


def test_with_two_the_backward_pass_waits_for_the_whole_output() -> None:
    assert written(dealt("1f1b", 2, 2), 0) == "F0 F1 F2 B0 F3 B1 B2 B3 U3"
    assert written(dealt("1f1b", 2, 2), 1) == "F0 F1 B0 F2 B1 F3 B2 B3 U3"


def test_gpipe_waits_as_it_is() -> None:
    assert written(dealt("gpipe", 2, 2), 1) == "F0 F1 F2 F3 B3 B2 B1 B0 U3"


def test_a_batch_runs_into_the_next_without_flush() -> None:
    found = dealt("2bw", 2, 1)
    first = " ".join(
        f"{LETTERS[task.work]}{task.microbatch}" for task in islice(found.unending(0), 12)
    )
    assert first == "F0 F1 B0 F2 B1 U1 F3 B2 F4 B3 U3 F5"


def test_microbatches_belong_to_workers_in_turn() -> None:
    found = dealt("1f1b", 3, 2)
    assert [found.owner(each) for each in range(7)] == [0, 0, 1, 1, 2, 2, 0]
    assert list(found.own(1, batch=2)) == [14, 15]


def test_microbatches_that_workers_cannot_share_are_refused() -> None:
    with pytest.raises(PipelineError, match="do not divide among the batches of 2 workers"):
        Dealt(PipelineSchedule.ONE_F_ONE_B, Shape(2, 3))


@draw.composite
def jobs(taken: draw.DrawFn) -> Dealt:
    schedule = taken(draw.sampled_from(PipelineSchedule))
    most = 3 if schedule is PipelineSchedule.INTERLEAVED else 1
    stages, each = taken(draw.integers(1, 5)), taken(draw.integers(1, 4))
    chunks = taken(draw.integers(1, most))
    return Dealt(schedule, Shape(stages, stages * each, chunks))


@given(jobs(), draw.integers(1, 3))
def test_every_worker_comes_to_the_end_of_its_batches(job: Dealt, batches: int) -> None:
    assert _Workers(job, batches).come_to_the_end()


@given(jobs(), draw.integers(1, 3))
def test_every_pass_is_there_once(job: Dealt, batches: int) -> None:
    shape = job.shape
    for stage in range(shape.stages):
        found = [(t.work, t.microbatch, t.chunk) for t in job.tasks(stage, batches)]
        assert len(found) == len(set(found))
        for work in (TaskKind.FORWARD, TaskKind.BACKWARD):
            mine = [each for each in found if each[0] is work]
            assert len(mine) == batches * shape.microbatches * shape.chunks


@given(draw.integers(1, 4), draw.integers(1, 3))
def test_batches_without_end_begin_as_those_that_end(stages: int, each: int) -> None:
    job = dealt("2bw", stages, each)
    for stage in range(stages):
        found = list(islice(job.unending(stage), 90))
        assert found == job.tasks(stage, 60)[:90]


class _Workers:
    """Plain scripts side by side: each calls its model, waits for its outputs, goes back."""

    def __init__(self, job: Dealt, batches: int) -> None:
        self._job, self._batches = job, batches
        self._lists = [job.tasks(stage, batches) for stage in range(job.shape.stages)]
        self._at = [0] * job.shape.stages
        self._called, self._handed = [1] * job.shape.stages, [0] * job.shape.stages
        self._done: set[tuple[TaskKind, int, int]] = set()

    def come_to_the_end(self) -> bool:
        while any(map(self._moved, range(self._job.shape.stages))):
            pass
        return all(at == len(mine) for at, mine in zip(self._at, self._lists))

    def _moved(self, stage: int) -> bool:
        task = self._next(stage)
        if task is not None and self._ready(task, stage):
            chunk = task.chunk * self._job.shape.stages + stage
            self._done.add((task.work, chunk, task.microbatch))
            self._at[stage] += 1
            return True
        return self._script(stage, task)

    def _script(self, stage: int, task: Task | None) -> bool:
        batch = self._handed[stage]
        if self._called[stage] == batch:  # behind its update
            if batch == self._batches or (
                task is not None and self._job.batch_of(task.microbatch) < batch
            ):
                return False
            self._called[stage] += 1
            return True
        end = self._job.shape.stages * self._job.shape.chunks - 1
        outputs = all(
            (TaskKind.FORWARD, end, own) in self._done for own in self._job.own(stage, batch)
        )
        if not outputs or task is None or not self._leaves(task, stage):
            return False
        self._handed[stage] += 1
        if not self._job.flushes:  # the script's next call does the rest
            self._called[stage] += batch + 1 < self._batches
        return True

    def _leaves(self, task: Task, stage: int) -> bool:
        own = self._job.batch_of(task.microbatch) == self._handed[stage]
        return own and self._job.waits(task, stage)

    def _next(self, stage: int) -> Task | None:
        mine = self._lists[stage]
        return mine[self._at[stage]] if self._at[stage] < len(mine) else None

    def _ready(self, task: Task, stage: int) -> bool:
        stages = self._job.shape.stages
        chunk, batch = task.chunk * stages + stage, self._job.batch_of(task.microbatch)
        owner = self._job.owner(task.microbatch)
        if self._leaves(task, stage) and self._handed[stage] <= batch:
            return False
        if task.work is TaskKind.FORWARD:
            given = (TaskKind.FORWARD, chunk - 1, task.microbatch) in self._done
            return given if chunk else self._called[owner] > batch
        if task.work is TaskKind.BACKWARD:
            given = (TaskKind.BACKWARD, chunk + 1, task.microbatch) in self._done
            return (
                given
                if chunk < stages * self._job.shape.chunks - 1
                else self._handed[owner] > batch
            )
        return True
