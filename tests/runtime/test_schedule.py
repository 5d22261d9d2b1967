"""Orders of work, weight versions, and the shapes that schedules refuse."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paceline.runtime.stages import (
    PipelineError,
    PipelineSchedule,
    Shape,
    Task,
    TaskKind,
    in_flight,
    tasks,
    version_used,
)

TWO = PipelineSchedule.TWO_BUFFERED
F, B, U = TaskKind.FORWARD, TaskKind.BACKWARD, TaskKind.UPDATE


def shapes(schedule: PipelineSchedule) -> st.SearchStrategy[Shape]:
    chunks = st.integers(2, 3) if schedule is PipelineSchedule.INTERLEAVED else st.just(1)
    return st.builds(
        lambda d, times, v: Shape(d, d * times, v), st.integers(1, 5), st.integers(1, 3), chunks
    )


cases = st.sampled_from(PipelineSchedule).flatmap(lambda s: st.tuples(st.just(s), shapes(s)))


def test_2bw_on_two_stages_runs_on_into_the_next_batch() -> None:
    first = tasks(TWO, Shape(2, 2), 0, batches=2)
    drawn = [(F, 0), (F, 1), (B, 0), (F, 2), (B, 1), (U, 1), (F, 3), (B, 2), (B, 3), (U, 3)]
    assert first == [Task(work, k) for work, k in drawn]


def test_1f1b_flushes_before_the_next_batch() -> None:
    first = tasks(PipelineSchedule.ONE_F_ONE_B, Shape(2, 2), 0, batches=2)
    batch = [(F, 0), (F, 1), (B, 0), (B, 1), (U, 1)]
    assert first == [Task(w, k) for w, k in batch] + [Task(w, k + 2) for w, k in batch]


def test_2bw_uses_the_published_version_of_each_micro_batch() -> None:
    assert [version_used(TWO, k, 3) for k in range(12)] == [0] * 6 + [1] * 3 + [2] * 3
    assert all(version_used(TWO, k - 1, 5) == max((k - 1) // 5 - 1, 0) for k in range(1, 50))


@settings(max_examples=60, deadline=None)
@given(cases)
def test_every_stage_does_all_passes_once_and_an_update_a_batch(
    case: tuple[PipelineSchedule, Shape],
) -> None:
    schedule, shape = case
    for stage in range(shape.stages):
        found = tasks(schedule, shape, stage, batches=2)
        assert len(set(found)) == len(found)
        passes = 3 if schedule is PipelineSchedule.ZERO_BUBBLE else 2
        assert len(found) == 2 * (passes * shape.microbatches * shape.chunks + 1)


@settings(max_examples=60, deadline=None)
@given(cases)
def test_micro_batches_in_flight_are_those_that_the_order_keeps(
    case: tuple[PipelineSchedule, Shape],
) -> None:
    schedule, shape = case
    frees = TaskKind.WEIGHT if schedule is PipelineSchedule.ZERO_BUBBLE else B
    for stage in range(shape.stages):
        held = most = 0
        for task in tasks(schedule, shape, stage, batches=3):
            held += (task.work is F) - (task.work is frees)
            most = max(most, held)
        assert most == in_flight(schedule, shape, stage)


@settings(max_examples=60, deadline=None)
@given(shapes(TWO), st.integers(1, 4))
def test_2bw_never_uses_a_version_that_two_buffers_have_lost(shape: Shape, batches: int) -> None:
    for stage in range(shape.stages):
        newest = 0
        for task in tasks(TWO, shape, stage, batches):
            used = version_used(TWO, task.microbatch, shape.microbatches)
            assert newest - 1 <= used <= newest
            newest += task.work is U


@pytest.mark.parametrize(
    ("schedule", "shape", "says"),
    [
        (TWO, Shape(4, 3), "2BW with 4 stages needs at least 4 micro-batches"),
        (TWO, Shape(2, 4, 2), "2 chunks a stage need the interleaved schedule; given is 2bw"),
        (PipelineSchedule.INTERLEAVED, Shape(4, 6, 2), "6 micro-batches do not divide"),
    ],
)
def test_a_shape_that_cannot_work_is_refused(
    schedule: PipelineSchedule, shape: Shape, says: str
) -> None:
    with pytest.raises(PipelineError, match=says):
        tasks(schedule, shape, 0, 1)


@pytest.mark.parametrize("shape", [(0, 1), (1, 0), (2, 2, 0)])
def test_a_pipeline_of_nothing_is_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(PipelineError, match="give 1 or more of each"):
        Shape(*shape)
