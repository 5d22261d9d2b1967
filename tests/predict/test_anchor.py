"""What recorded work is brought to before it is changed."""

from dataclasses import replace

import pytest

from paceline.cluster import Cluster, Device, Host, Link
from paceline.graph import Graph, LaneKind
from paceline.graph.synthetic import MachineKind, Parallel, TrainingJob, training
from paceline.predict import predict
from paceline.predict.predicting import typical


def recorded(run_ns: int) -> Graph:
    """A job whose plain steps took 20 ms, of which its training thread ran `run_ns`."""
    job = training(TrainingJob(Parallel.DDP, workers=2, steps=4))
    return replace(job, facts=replace(job.facts, plain_step_ns=20_000_000, plain_run_ns=run_ns))


def cluster() -> Cluster:
    return Cluster(tuple(Host(f"h{i}", Device("core")) for i in range(2)), Link.both_ways(1e12))


def test_unchanged_and_on_its_own_machines_a_step_takes_as_long_as_a_plain_one() -> None:
    job = training(TrainingJob(Parallel.DDP, workers=2, steps=4))
    plain = round(predict(job).step_ns * 1.05)
    slow = replace(job, facts=replace(job.facts, plain_step_ns=plain))
    assert predict(slow).step_ns == pytest.approx(plain, rel=0.01)


def test_on_a_cluster_work_is_what_the_thread_ran_not_what_the_wall_clock_saw() -> None:
    plain = predict(recorded(0)).by_class
    work = sum(plain[name] for name in ("forward", "backward", "update", "data"))
    found = predict(recorded(round(work * 0.9)), cluster=cluster())
    ran = sum(found.by_class[name] for name in ("forward", "backward", "update", "data"))
    assert ran == pytest.approx(work * 0.9, rel=0.02)
    assert "work: recorded, the median of the recorded steps" in found.rests_on


def test_without_run_times_the_interval_is_wider_and_says_why() -> None:
    counted = predict(recorded(8_000_000), cluster=cluster())
    by_wall = predict(recorded(0), cluster=cluster())
    assert by_wall.spread > counted.spread
    assert any("wall clock alone" in reason for reason in by_wall.rests_on)


@pytest.mark.parametrize("factor", [0.5, 0.9, 1.1])
def test_of_a_device_job_the_hosts_work_meets_the_plain_step_and_kernels_stay(
    factor: float,
) -> None:
    job = training(TrainingJob(Parallel.DDP, MachineKind.GPU, workers=2, steps=4))
    plain = round(predict(job).step_ns * factor)
    made = typical(replace(job, facts=replace(job.facts, plain_step_ns=plain)))
    before = typical(job)
    on_stream = (before.lanes.kind == LaneKind.STREAM)[before.ops.lane]
    kernels, hosts = (before.ops.dur_ns[rows] for rows in (on_stream, ~on_stream))
    assert made.ops.dur_ns[on_stream].tolist() == kernels.tolist()
    shorter = made.ops.dur_ns[~on_stream].sum() < hosts.sum()
    assert shorter == (factor < 1)
