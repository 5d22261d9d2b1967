"""Batches prepared beside the step: the slower of loading and training sets the pace."""

from dataclasses import replace

import numpy as np
import pytest

from paceline.errors import GraphError
from paceline.graph import Graph, GraphBuilder, OpKind, Phase, check
from paceline.graph.facts import Loading
from paceline.graph.loaders import HAND_OVER, loaded_beside
from paceline.graph.prefetching import prefetched
from paceline.predict.classes import step_ns
from paceline.replay import replay


def job(load_ns: int, train_ns: int, steps: int = 6, ranks: int = 2) -> Graph:
    b = GraphBuilder()
    for rank in range(ranks):
        thread = b.lane(rank)
        for step in range(steps):
            b.op("load", thread, load_ns, kind=OpKind.DATA, phase=Phase.DATA, step=step)
            b.op("forward", thread, train_ns, phase=Phase.FORWARD, step=step)
    return b.build()


@pytest.mark.parametrize(
    ("load", "train", "workers", "step"),
    [
        (100, 300, 1, 300),  # hidden
        (300, 100, 1, 300),  # one worker cannot keep up
        (300, 100, 2, 150),  # two share it
        (300, 100, 3, 100),  # three keep up
        (300, 100, 4, 100),
    ],
)
def test_a_step_takes_the_slower_of_training_and_shared_loading(
    load: int, train: int, workers: int, step: int
) -> None:
    made = check(loaded_beside(job(load, train), workers))
    assert step_ns(replay(job(load, train))) == load + train
    assert step_ns(replay(made)) == pytest.approx(step, rel=0.01)


def test_every_batch_is_prepared_once_and_on_its_own_ranks_workers() -> None:
    made = loaded_beside(job(70, 10), 2)
    loads = made.ops.kind == OpKind.DATA
    assert made.ops.dur_ns[loads].sum() == 2 * 6 * 70
    assert (made.lanes.rank[made.ops.lane[loads]] == made.ops.rank[loads]).all()
    assert len(np.unique(made.ops.lane[loads])) == 4
    assert [name for name in made.lanes.name if "loader" in name] == ["loader 0", "loader 1"] * 2
    taken = np.flatnonzero(made.ops.kind == OpKind.HOST)
    assert [made[op].name for op in taken.tolist()] == [HAND_OVER] * 2 * 6


def test_a_job_that_loads_nothing_is_refused() -> None:
    with pytest.raises(GraphError, match="no op of this job prepares a batch"):
        loaded_beside(job(0, 10), 2)


def test_a_batch_begins_when_one_far_enough_ahead_was_taken() -> None:
    """Loading is four times as fast: what holds it back is how far it may run ahead."""
    for ahead in (1, 2):
        made = check(prefetched(loaded_beside(job(100, 400, steps=8, ranks=1), 1), ahead))
        timeline = replay(made)
        loads = np.flatnonzero((made.ops.kind == OpKind.DATA) & (made.ops.dur_ns > 0))
        takes = np.flatnonzero(made.ops.kind == OpKind.HOST)
        for batch, load in enumerate(loads[ahead:]):
            assert timeline.start_ns[load] >= timeline.end_ns[takes[batch]]
        early = loads[ahead + 1], takes[1]
        assert timeline.start_ns[early[0]] == timeline.end_ns[early[1]]


def test_another_depth_replaces_the_one_before() -> None:
    beside = loaded_beside(job(100, 400), 2)
    again, once = prefetched(prefetched(beside, 1), 3), prefetched(beside, 3)
    assert again.facts.loading.prefetch == 3
    assert again.deps.src.tolist() == once.deps.src.tolist()


def test_without_workers_nothing_is_prepared_ahead() -> None:
    with pytest.raises(GraphError, match=r"Ask for workers first: data_workers\(count=1\)"):
        prefetched(job(70, 10), 2)


def test_a_job_whose_batches_workers_prepared_does_not_show_what_they_take() -> None:
    given = job(70, 10)
    there = replace(given, facts=replace(given.facts, loading=Loading(workers=3)))
    with pytest.raises(GraphError, match=r"prepared by 3 workers.*num_workers=0"):
        loaded_beside(there, 2)
