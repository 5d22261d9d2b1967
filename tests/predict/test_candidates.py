"""Many changes of one job: the same step times as predictions, one by one."""

import numpy as np
import pytest

from paceline.cluster import Cluster, Device, Host, Link
from paceline.cluster.machine import Machine
from paceline.graph.condense import Grain
from paceline.graph.synthetic import Parallel, TrainingJob, training
from paceline.predict import Candidates, Question, predict
from paceline.strategies import parse

PLANS = (
    [],
    ["buckets(size_bytes=4000000)"],
    ["workers(count=3)", "buckets(size_bytes=1000000)"],
    ["batch(factor=2.0)", "parameter_server"],
)


def cluster() -> Cluster:
    return Cluster(tuple(Host(f"h{i}", Device("core")) for i in range(2)), Link.both_ways(1e8))


@pytest.mark.parametrize("machine", [None, Machine(2.0)])
@pytest.mark.parametrize("plan", PLANS)
def test_a_candidate_takes_as_long_as_its_prediction(
    plan: list[str], machine: Machine | None
) -> None:
    job, question = (
        training(TrainingJob(Parallel.DDP, workers=2, steps=4)),
        Question(machine=machine),
    )
    changes = [parse(text) for text in plan]
    found = Candidates(job, cluster(), question).step_ns(changes)
    assert found == predict(job, changes, cluster(), question).step_ns


def test_draws_on_shared_cores_vary_around_the_step() -> None:
    job = training(TrainingJob(Parallel.DDP, workers=2, steps=6, jitter=0.2))
    found = predict(job, [], cluster(), Question(machine=Machine(1.0), draws=60))
    assert found.drawn is not None
    assert found.drawn.p5_ns < found.drawn.p95_ns
    alone = predict(job, [], cluster(), Question(draws=60))
    assert alone.drawn is not None
    assert found.drawn.median_ns > alone.drawn.median_ns


def test_what_plans_begin_with_may_be_forgotten_and_is_made_anew() -> None:
    job = training(TrainingJob(steps=4))
    forgetful = Candidates(job, cluster(), Question(), kept_ops=0)
    for _ in range(2):
        for texts in PLANS:
            plan = [parse(text) for text in texts]
            assert forgetful.step_ns(plan) == predict(job, plan, cluster()).step_ns


@pytest.mark.parametrize("workers", [2, 3])
def test_seen_coarsely_like_ranks_stand_once(workers: int) -> None:
    job = training(TrainingJob(workers=workers, steps=4))
    coarse = Candidates(job, None, Question(), coarse=True)
    assert np.unique(coarse.source(Grain.EVENT).ops.rank).tolist() == [0]
    assert len(np.unique(coarse.whole.source(Grain.EVENT).ops.rank)) == workers
