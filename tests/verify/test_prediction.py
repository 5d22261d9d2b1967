"""Predictions on other clusters: intervals, reasons, quotas, classes."""

from dataclasses import replace

import pytest

from paceline.cluster import Cluster, Device, Host, Link
from paceline.cost.calibrate import Overlap
from paceline.cost.retarget import Beat, BeatKind, Call, Job, Target
from paceline.graph import Collective, DType, GraphBuilder, Phase
from paceline.verify import (
    Prediction,
    SharedMachine,
    VerifyError,
    predict,
    predict_in_place,
    tcp_share,
)

MS = 1_000_000
JOB = Job(
    workers=(
        (
            Beat(BeatKind.WORK, Phase.FORWARD, 10 * MS, 0.02),
            Beat(BeatKind.WORK, Phase.BACKWARD, 20 * MS, 0.02),
            Beat(BeatKind.GRADIENT, 0),
            Beat(BeatKind.CALL, 0),
            Beat(BeatKind.WAIT, 0),
            Beat(BeatKind.WORK, Phase.UPDATE, 5 * MS, 0.02),
        ),
    )
    * 2,
    calls=(Call(Collective.ALL_REDUCE, 12_500_000, DType.FLOAT32, bucket=0),),
    parameters=(("w", 12_500_000),),
    buckets=((0,),),
)


OVERLAPPED = replace(
    JOB,
    workers=(
        (
            Beat(BeatKind.WORK, Phase.BACKWARD, 10 * MS, 0.02),
            Beat(BeatKind.GRADIENT, 0),
            Beat(BeatKind.CALL, 0),
            Beat(BeatKind.WORK, Phase.BACKWARD, 5 * MS, 0.02),
            Beat(BeatKind.WAIT, 0),
        ),
    )
    * 2,
    calls=(Call(Collective.ALL_REDUCE, 1_250_000, DType.FLOAT32, bucket=0),),
    parameters=(("w", 1_250_000),),
)


def cluster(workers: int = 2, rate: float = 125e6, cpus: float = 0.0) -> Cluster:
    hosts = tuple(Host(f"h{i}", Device("core"), cpus=cpus) for i in range(workers))
    return Cluster(hosts, Link.both_ways(rate))


def test_work_plus_bytes_over_rate_is_the_step_of_one_bucket() -> None:
    found = predict(JOB, cluster())
    assert found.step_ns == pytest.approx(35 * MS + 100 * MS, rel=0.01)
    assert found.by_class["forward"] == 10 * MS
    assert found.by_class["exposed"] == pytest.approx(100 * MS, rel=0.01)


def test_the_interval_holds_the_prediction_and_says_what_it_rests_on() -> None:
    found = predict(JOB, cluster())
    assert found.low_ns < found.step_ns < found.high_ns
    assert any("recorded" in reason for reason in found.rests_on)
    assert any("communication" in reason for reason in found.rests_on)


def test_a_wider_recorded_spread_widens_the_interval() -> None:
    rows = tuple(tuple(replace(b, spread=0.4) for b in row) for row in JOB.workers)
    noisy = predict(replace(JOB, workers=rows), cluster())
    assert noisy.spread > predict(JOB, cluster()).spread


def test_four_workers_on_two_cores_compute_twice_as_long() -> None:
    machine = SharedMachine(2.0, cpu_ns_per_byte=0.0)
    two = predict(JOB, cluster(2), machine=machine)
    four = predict(JOB, cluster(4), Target(workers=4), machine=machine)
    assert four.by_class["forward"] == 2 * two.by_class["forward"]
    assert four.by_class["communication"] > two.by_class["communication"]


def test_messages_come_late_only_while_work_takes_all_cores() -> None:
    def step_ns(cores: float, turn_ns: float) -> int:
        machine = SharedMachine(cores, cpu_ns_per_byte=0.0, turn_ns=turn_ns)
        return predict(OVERLAPPED, cluster(2), machine=machine).step_ns

    assert step_ns(2.0, turn_ns=2 * MS) > step_ns(2.0, turn_ns=0.0)
    assert step_ns(3.0, turn_ns=2 * MS) == step_ns(3.0, turn_ns=0.0)


def test_a_worker_with_half_a_core_holds_up_all() -> None:
    slow = cluster(2)
    slow = replace(slow, hosts=(slow.hosts[0], replace(slow.hosts[1], cpus=0.5)))
    assert predict(JOB, slow).step_ns == pytest.approx(70 * MS + 100 * MS, rel=0.01)


def test_hosts_are_added_for_workers_that_the_cluster_has_no_room_for() -> None:
    assert predict(JOB, cluster(2), Target(workers=8)).workers == 8


def test_a_graph_of_any_kind_is_repriced_where_it_stands() -> None:
    made = GraphBuilder()
    lane = made.lane(0, "main")
    made.op("work", lane, 10 * MS, phase=Phase.FORWARD)
    found = predict_in_place(made.build(), cluster(1), compute=0.5)
    assert found.step_ns == 5 * MS
    assert isinstance(found, Prediction)


def test_tcps_share_is_payload_over_frames_and_acknowledgements() -> None:
    assert tcp_share(4) == pytest.approx(1448 / 1530.5)
    assert tcp_share(1) < tcp_share(4) < 1448 / 1514


def overlapped() -> Job:
    """100 ms of communication beside 40 ms of backward work."""
    row = (
        Beat(BeatKind.CALL, 0),
        Beat(BeatKind.WORK, Phase.BACKWARD, 40 * MS),
        Beat(BeatKind.WAIT, 0),
    )
    return Job((row, row), JOB.calls, JOB.parameters, JOB.buckets)


def test_calibrated_overlap_slows_what_runs_together() -> None:
    """Work at half its rate takes 80 ms; communication, at half for as long, 140 ms."""
    alone = predict(overlapped(), cluster())
    slowed = predict(overlapped(), cluster(), overlap=Overlap(compute=2.0, communication=2.0))
    assert slowed.step_ns == pytest.approx(alone.step_ns + 40 * MS, rel=0.01)
    assert slowed.by_class["backward"] == pytest.approx(80 * MS, rel=0.01)


def test_shared_cores_and_calibrated_overlap_are_not_counted_twice() -> None:
    with pytest.raises(VerifyError, match="not both"):
        predict(
            JOB,
            cluster(),
            machine=SharedMachine(2.0),
            overlap=Overlap(compute=1.2, communication=1),
        )
