"""Predictions: steps on other clusters, their classes, reasons, and what they refuse."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from paceline.cluster import Cluster, Device, Host, Link
from paceline.cluster import parse as parse_cluster
from paceline.cluster.machine import Machine
from paceline.graph import (
    UNPRICED,
    Axis,
    Collective,
    DeviceKind,
    Facts,
    Graph,
    GraphBuilder,
    LaneKind,
    OpKind,
    Phase,
)
from paceline.graph.facts import BlockHost
from paceline.imagine.transformer import Degrees, Training, Transformer, describe
from paceline.measure import Calibration, Overlap, Sweep
from paceline.predict import PredictError, Question, predict
from paceline.predict.predicting import informed
from paceline.strategies import parse

MS = 1_000_000
FACTORS = (1.0, 0.8, 1.2, 1.0, 1.0)
Job = Callable[..., Graph]


def cluster(workers: int = 2, rate: float = 125e6) -> Cluster:
    hosts = tuple(Host(f"h{i}", Device("core")) for i in range(workers))
    return Cluster(hosts, Link.both_ways(rate))


def calibration(overlap: Overlap | None) -> Calibration:
    line = Sweep((1.0, 2.0, 3.0), (1.0, 2.0, 3.0))
    return Calibration("core", 1, 2, line, line, line, None, overlap)


def test_work_plus_bytes_over_rate_is_the_step_of_one_bucket(job: Job) -> None:
    found = predict(job(), cluster=cluster())
    assert found.step_ns == pytest.approx(35 * MS + 100 * MS, rel=0.01)
    assert found.by_class["forward"] == 10 * MS
    assert found.by_class["backward"] == 20 * MS
    assert found.by_class["update"] == 5 * MS
    assert found.by_class["exposed"] == pytest.approx(100 * MS, rel=0.01)


def test_without_a_cluster_communication_takes_what_it_took(job: Job) -> None:
    found = predict(job())
    assert found.step_ns == 35 * MS + 60 * MS
    assert found.by_class["communication"] == 60 * MS
    assert "communication: as recorded" in found.rests_on


def test_a_part_of_a_job_is_priced_where_its_groups_are_whole() -> None:
    """Two of four ranks, which reduce among themselves."""
    b = GraphBuilder(facts=Facts(world_size=4))
    group, instance = b.group("pair", (0, 1), Axis.DATA), b.instance()
    for rank in (0, 1):
        b.op("reduce", b.lane(rank), UNPRICED, kind=OpKind.COLLECTIVE, group=group,
             collective=Collective.ALL_REDUCE, size_bytes=125 * 10**5,
             instance=instance)  # fmt: skip
    assert predict(b.build(), cluster=cluster(4)).step_ns == pytest.approx(100 * MS, rel=0.01)


def test_a_prediction_says_what_it_rests_on(job: Job) -> None:
    found = predict(job(), [parse("batch(factor=2)")], cluster())
    assert "work: recorded, the median of the recorded steps" in found.rests_on
    assert "change: batch(factor=2)" in found.rests_on
    assert any(reason.startswith("communication: ") for reason in found.rests_on)


def test_what_was_never_measured_of_a_device_is_said(job: Job) -> None:
    there = parse_cluster("{hosts: {count: 2, device: gaudi-3}, link: ethernet-1g}")
    told = predict(job(), cluster=there).rests_on
    assert any(reason.startswith("gaudi-3: no kernel was timed on it") for reason in told)
    assert not any("no kernel was timed" in each for each in predict(job(), [], cluster()).rests_on)


def test_changes_are_made_before_the_cluster_prices_them(job: Job) -> None:
    plan = [parse("workers(count=4)"), parse("batch(factor=2)")]
    found = predict(job(), plan, cluster(4))
    assert found.workers == 4
    share = 2 * 3 / 4  # of the bytes, each worker sends in a ring of four
    assert found.step_ns == pytest.approx(65 * MS + 100 * MS * share, rel=0.02)


def test_hosts_are_added_for_workers_that_the_cluster_has_no_room_for(job: Job) -> None:
    found = predict(job(), [parse("workers(count=8)")], cluster(2))
    assert found.workers == 8
    assert len(found.timeline.graph.ranks) == 8


def test_what_was_measured_for_changes_is_put_to_a_job_once(job: Job) -> None:
    """Its typical step, remembered by the graph, is then found again."""
    graph = job()
    one, other = (Question(Machine(2.0, gathered_block_ns=ns)) for ns in (1e5, 2e5))
    told = informed(graph, one)
    assert told.facts.block_host == BlockHost(1e5, 0.0, 0.0, 0.0)
    assert informed(graph, one) is told
    assert informed(graph, other).facts.block_host == BlockHost(2e5, 0.0, 0.0, 0.0)
    assert informed(graph, Question(Machine(2.0))) is graph
    assert graph.facts.block_host is None


def test_a_worker_with_half_a_core_holds_up_all(job: Job) -> None:
    slow = cluster()
    slow = replace(slow, hosts=(slow.hosts[0], replace(slow.hosts[1], cpus=0.5)))
    assert predict(job(), cluster=slow).step_ns == pytest.approx(70 * MS + 100 * MS, rel=0.01)


def test_workers_with_half_a_core_each_leave_room_on_the_cores_that_they_share(job: Job) -> None:
    """Four that get half a core each do not crowd two cores; without quotas they do."""
    wholes = cluster(4)
    halves = replace(wholes, hosts=tuple(replace(host, cpus=0.5) for host in wholes.hosts))
    free = Question(Machine(2.0, cpu_ns_per_byte=0.0, turn_ns=0.0))
    plan = [parse("workers(count=4)")]
    alone = predict(job(), plan, halves)
    shared = predict(job(), plan, halves, free)
    crowded = predict(job(), plan, wholes, free)
    forward = [each.by_class["forward"] for each in (alone, shared, crowded)]
    assert forward == pytest.approx([20 * MS] * 3, rel=1e-4)
    assert any("1 / cpus times as long" in reason for reason in shared.rests_on)
    assert not any("1 / cpus times as long" in reason for reason in crowded.rests_on)


def test_a_quota_of_its_host_does_not_slow_a_devices_kernels() -> None:
    b = GraphBuilder()
    card = b.device("gpu", kind=DeviceKind.GPU)
    b.op("kernel", b.lane(0, "stream", kind=LaneKind.STREAM, device=card), 10 * MS)
    b.op("work", b.lane(0, "main"), 3 * MS)
    place = cluster(1)
    slow = replace(place, hosts=(replace(place.hosts[0], cpus=0.5),))
    found = predict(b.build(), cluster=slow)
    assert found.step_ns == 10 * MS
    assert sorted(found.timeline.dur_ns.tolist()) == [6 * MS, 10 * MS]


def test_the_typical_of_several_steps_is_what_is_predicted(job: Job) -> None:
    one, five = predict(job(), cluster=cluster()), predict(job(factors=FACTORS), cluster=cluster())
    assert five.step_ns == one.step_ns


def test_the_interval_holds_the_prediction(job: Job) -> None:
    found = predict(job(factors=FACTORS), cluster=cluster())
    assert found.low_ns < found.step_ns < found.high_ns


def test_a_wider_recorded_spread_widens_the_interval(job: Job) -> None:
    calm, noisy = (
        predict(job(factors=(1.0, 1 - d, 1 + d)), cluster=cluster()) for d in (0.02, 0.4)
    )
    assert noisy.step_ns == calm.step_ns
    assert noisy.spread > calm.spread


def test_a_graph_of_any_kind_is_priced_where_it_stands() -> None:
    b = GraphBuilder()
    b.op("work", b.lane(0, "main"), 10 * MS, phase=Phase.FORWARD)
    half = parse('scale(select="phase=forward", factor=0.5)')
    assert predict(b.build(), [half], cluster(1)).step_ns == 5 * MS


def test_recorded_work_is_brought_to_plain_steps_once(job: Job) -> None:
    """Steps without instruments took 91 ms where the typical recorded one takes 95: the 4 ms come
    off its 35 of work, before the batch doubles what is left of forward and backward."""
    graph = job(factors=(1.0, 1.0, 1.0), plain_step_ns=91 * MS)
    assert predict(graph).step_ns == pytest.approx(91 * MS, abs=9)
    doubled = predict(graph, [parse("batch(factor=2)")]).step_ns
    assert doubled == pytest.approx(91 * MS + 30 * MS * 31 / 35, abs=9)


def test_recorded_work_is_not_scaled_beyond_what_instruments_can_cost(job: Job) -> None:
    graph = job(factors=(1.0, 1.0, 1.0), plain_step_ns=1 * MS)
    assert predict(graph).step_ns == pytest.approx(60 * MS + 0.6 * 35 * MS, abs=9)


def test_four_workers_on_two_cores_compute_twice_as_long(job: Job) -> None:
    question = Question(Machine(2.0, cpu_ns_per_byte=0.0))
    two = predict(job(), cluster=cluster(), question=question)
    four = predict(job(), [parse("workers(count=4)")], cluster(4), question)
    assert four.by_class["forward"] == 2 * two.by_class["forward"]
    assert four.by_class["communication"] > two.by_class["communication"]


def test_messages_come_late_only_while_work_takes_all_cores(job: Job) -> None:
    graph = job(backward_ns=10 * MS, beside_ns=5 * MS, size_bytes=1_250_000)

    def step_ns(cores: float, turn_ns: float) -> int:
        machine = Machine(cores, cpu_ns_per_byte=0.0, turn_ns=turn_ns)
        return predict(graph, cluster=cluster(), question=Question(machine)).step_ns

    assert step_ns(2.0, turn_ns=2 * MS) > step_ns(2.0, turn_ns=0.0)
    assert step_ns(3.0, turn_ns=2 * MS) == step_ns(3.0, turn_ns=0.0)


def test_work_on_all_cores_loses_what_is_measured_beside_it(job: Job) -> None:
    graph = job(backward_ns=10 * MS, beside_ns=50 * MS, size_bytes=1_250_000)

    def step_ns(cores: float, more: float) -> int:
        beside = Machine(
            cores, cpu_ns_per_byte=0.0, turn_ns=0.0, fast_beside_ns_per_byte=more,
            slow_beside_ns_per_byte=more, call_beside_ns=MS * more / 4,
        )  # fmt: skip
        return predict(graph, cluster=cluster(), question=Question(beside)).step_ns

    lost = 4 * 1_250_000 + MS  # of each of two workers with a core each
    assert step_ns(2.0, more=4.0) - step_ns(2.0, more=0.0) == pytest.approx(lost, rel=1e-3)
    assert step_ns(4.0, more=4.0) == step_ns(4.0, more=0.0)


def test_a_shared_machine_is_told_with_what_of_it_was_not_measured(job: Job) -> None:
    told = predict(job(), cluster=cluster(), question=Question(Machine(2.0, turn_ns=5.0))).rests_on
    assert "machine: 2 cores, shared by all workers" in told
    (defaults,) = [reason for reason in told if reason.startswith("defaults, measured on")]
    assert "call_ns" in defaults
    assert "turn_ns" not in defaults


def test_calibrated_overlap_slows_what_runs_together(job: Job) -> None:
    """40 ms of work beside 100 of communication, each at half its rate while both run: the work
    takes 80 ms, and communication 40 more. It was recorded beside next to none."""
    graph = job(beside_ns=40 * MS, talk_ns=1)
    alone, slowed = (
        predict(graph, cluster=cluster(), question=Question(calibration=calibration(overlap)))
        for overlap in (None, Overlap(compute=2.0, communication=2.0))
    )
    assert slowed.step_ns == pytest.approx(alone.step_ns + 40 * MS, rel=0.01)
    assert slowed.by_class["backward"] == pytest.approx(20 * MS + 80 * MS, rel=0.01)


def test_a_calibration_leaves_an_unchanged_job_as_it_was_recorded(job: Job) -> None:
    """Recorded beside 60 ms of communication, 40 ms of work are 20 alone, and 40 there again; with
    no communication beside them they take 20."""
    question = Question(calibration=calibration(Overlap(compute=2.0, communication=1.25)))
    graph = job(beside_ns=40 * MS)
    plain, found = predict(graph), predict(graph, question=question)
    assert found.step_ns == pytest.approx(plain.step_ns, rel=1e-4)
    assert dict(found.by_class) == pytest.approx(dict(plain.by_class), rel=1e-3, abs=MS / 100)
    none = predict(graph, ["scale(select='kind=collective', factor=0)"], question=question)
    assert none.step_ns == pytest.approx(35 * MS + 20 * MS, rel=1e-3)


def test_a_calibration_of_processors_tells_nothing_of_gpus() -> None:
    b = GraphBuilder()
    for rank in (0, 1):
        card = b.device(f"gpu {rank}", kind=DeviceKind.GPU)
        b.op("gemm", b.lane(rank, "7", kind=LaneKind.STREAM, device=card), 100 * MS)
        b.op("copy", b.lane(rank, "8", kind=LaneKind.STREAM, device=card), 80 * MS,
             kind=OpKind.TRANSFER)  # fmt: skip
    question = Question(calibration=calibration(Overlap(compute=2.0, communication=2.0)))
    assert predict(b.build(), question=question).step_ns == 100 * MS


def test_draws_are_of_recorded_steps_and_the_same_for_a_seed(job: Job) -> None:
    graph = job(factors=FACTORS)
    first, again, other = (
        predict(graph, cluster=cluster(), question=Question(draws=50, seed=seed)).drawn
        for seed in (1, 1, 2)
    )
    assert first is not None
    assert again is not None
    assert other is not None
    assert len(first.steps_ns) == 50
    assert first.steps_ns.tolist() == again.steps_ns.tolist() != other.steps_ns.tolist()


def test_draws_lie_around_the_step_that_is_predicted(job: Job) -> None:
    found = predict(job(factors=FACTORS), cluster=cluster(), question=Question(draws=200))
    assert found.drawn is not None
    assert np.median(found.drawn.steps_ns) == pytest.approx(found.step_ns, rel=0.05)


def test_shared_cores_and_calibrated_overlap_are_not_counted_twice(job: Job) -> None:
    question = Question(Machine(2.0))
    overlapping = calibration(Overlap(compute=1.5, communication=1.5))
    both = predict(job(), cluster=cluster(), question=replace(question, calibration=overlapping))
    assert both.step_ns == predict(job(), cluster=cluster(), question=question).step_ns


def test_shared_cores_need_a_cluster(job: Job) -> None:
    with pytest.raises(PredictError, match="shared cores need a cluster"):
        predict(job(), question=Question(Machine(2.0)))


def test_imagined_work_is_priced_by_the_cluster(job: Job) -> None:
    graph = job()
    dur = np.where(graph.ops.kind == OpKind.COLLECTIVE, UNPRICED, graph.ops.dur_ns)
    unpriced = replace(graph, ops=replace(graph.ops, dur_ns=dur))
    priced, recorded = (predict(g, cluster=cluster()) for g in (unpriced, graph))
    assert priced.step_ns == recorded.step_ns


def test_communication_with_ranks_that_were_not_imported_is_not_priced_as_nothing(job: Job) -> None:
    graph = job()
    part = replace(graph, facts=replace(graph.facts, world_size=4))
    groups = tuple(replace(group, ranks=group.ranks[:1]) for group in graph.groups)
    with pytest.raises(PredictError, match="Import the traces of all ranks"):
        predict(replace(part, groups=groups), cluster=cluster(4))


def test_bytes_that_are_not_known_are_said(job: Job) -> None:
    graph = job()
    silent = replace(graph, ops=replace(graph.ops, size_bytes=np.zeros(len(graph), np.int64)))
    found = predict(silent, cluster=cluster())
    assert any(reason.startswith("no bytes for") for reason in found.rests_on)


def test_one_rank_of_a_pair_is_priced_for_both() -> None:
    """An imagined or described rank stands for those that do the same."""
    model = Transformer(layers=1, hidden=64, heads=4, seq=32, vocab=64)
    graph = describe(model, Degrees(data=2), Training(2)).graph
    found = predict(
        graph, cluster=parse_cluster("{hosts: {count: 2, device: a100-40}, link: {rate: 10Gbps}}")
    )
    assert len(graph.ranks) == 1
    assert found.by_class["communication"] > 0
