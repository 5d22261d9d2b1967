"""Collectives among more workers than cores begin when the last of them has come."""

from dataclasses import dataclass

import numpy as np

from paceline.cluster.machine import Machine
from paceline.cost.followed import followed
from paceline.graph import (
    UNPRICED,
    Axis,
    Collective,
    DepKind,
    Graph,
    GraphBuilder,
    LaneKind,
    OpKind,
    check,
)
from paceline.graph.synthetic import TrainingJob, training
from paceline.predict.late import LANE, late
from paceline.replay import replay
from paceline.replay.hosts import SharedHosts

MS = 1_000_000
ONE_CORE = Machine(1.0, together_ns=2.0 * MS)


@dataclass(frozen=True)
class Drawn:
    """Two workers; each of these stretches of work is followed by a collective of `talk_ms`."""

    work_ms: tuple[float, ...]
    talk_ms: float = 5

    def graph(self) -> Graph:
        b = GraphBuilder()
        group = b.group("0", (0, 1), Axis.DATA)
        lanes = [(b.lane(r, "main"), b.lane(r, "gloo", kind=LaneKind.COMM_THREAD)) for r in (0, 1)]
        for work_ms in self.work_ms:
            instance = b.instance()
            for main, gloo in lanes:
                dur_ns = UNPRICED if work_ms < 0 else round(work_ms * MS)
                worked = b.op("mm", main, dur_ns)
                b.op(
                    "all_reduce", gloo, round(self.talk_ms * MS), kind=OpKind.COLLECTIVE,
                    collective=Collective.ALL_REDUCE, group=group, instance=instance,
                    size_bytes=8, after=[worked],
                )  # fmt: skip
        return check(b.build())


def ends_ms(graph: Graph) -> list[float]:
    """When each collective of the first worker ends; two workers share a core."""
    timeline = replay(graph, hosts=SharedHosts.one_machine(2, 1.0))
    ops = graph.ops
    mine = np.flatnonzero((ops.kind == OpKind.COLLECTIVE) & (ops.rank == 0))
    return [float(timeline.end_ns[op]) / MS for op in mine]


def test_a_collective_behind_work_waits_for_the_last_of_its_workers() -> None:
    """Two times ten ms on one core, the wait, and the collective."""
    job = Drawn((10,)).graph()
    assert ends_ms(job) == [25]
    made = check(late(job, ONE_CORE))
    assert ends_ms(made) == [27]
    waits = made.ops.kind == OpKind.CORE_WAIT
    assert {made.lanes.name[lane] for lane in made.ops.lane[waits].tolist()} == {LANE}


def test_it_is_no_later_than_its_workers_worked() -> None:
    assert ends_ms(late(Drawn((1,)).graph(), ONE_CORE)) == [2 + 1 + 5]
    assert late(job := Drawn((0,)).graph(), ONE_CORE) is job


def test_behind_another_one_only_the_work_between_them_counts() -> None:
    """The second is ready at 21 ms; its own wait of half a ms ends while the first one runs."""
    made = late(Drawn((10, 0.5)).graph(), ONE_CORE)
    waits = made.ops.dur_ns[made.ops.kind == OpKind.CORE_WAIT]
    assert waits.tolist() == [2 * MS, 2 * MS, MS // 2, MS // 2]
    assert ends_ms(made) == [27, 32]


def test_nothing_is_lost_where_the_one_before_still_runs() -> None:
    job = Drawn((10, 10), talk_ms=60).graph()
    assert ends_ms(job) == [80, 140]
    assert ends_ms(late(job, ONE_CORE)) == [82, 142]


def test_work_that_has_no_price_yet_counts_as_enough() -> None:
    made = late(Drawn((-1,)).graph(), ONE_CORE)
    assert made.ops.dur_ns[made.ops.kind == OpKind.CORE_WAIT].tolist() == [2 * MS] * 2


def test_without_a_measurement_there_is_no_wait() -> None:
    job = Drawn((10,)).graph()
    assert late(job, Machine(1.0)) is job


def test_a_whole_job_keeps_its_ops_and_what_they_wait_for() -> None:
    job = training(TrainingJob(layers=4, workers=4))
    made = check(late(job, Machine(2.0, together_ns=1e5)))
    old = made.ops.kind != OpKind.CORE_WAIT
    assert np.array_equal(made.ops.dur_ns[old], job.ops.dur_ns)
    assert np.array_equal(made.ops.kind[old], job.ops.kind)
    behind = int((~old).sum())
    assert 0 < behind <= int((job.ops.kind == OpKind.COLLECTIVE).sum())
    assert len(made.deps) == len(job.deps) + 2 * behind, "its wait, and its launch once more"


def test_what_a_rank_hands_over_before_it_waits_stays_as_it_was() -> None:
    """Two broadcasts in a row share the links of members that pass the first one on; the waits in
    front of them do not part them."""
    b = GraphBuilder()
    group = b.group("0", (0, 1), Axis.DATA)
    lanes = [(b.lane(r, "main"), b.lane(r, "gloo", kind=LaneKind.COMM_THREAD)) for r in (0, 1)]
    instances = (b.instance(), b.instance())
    for main, gloo in lanes:
        b.op("mm", main, 10 * MS)
        asked = [b.op("broadcast_", main, MS) for _ in instances]
        calls = []
        for instance, launch in zip(instances, asked, strict=True):
            for before in calls:
                b.op("wait", main, kind=OpKind.WAIT, after=[before], dep=DepKind.WAIT)
            calls.append(b.op(
                "broadcast", gloo, MS, kind=OpKind.COLLECTIVE, collective=Collective.BROADCAST,
                group=group, instance=instance, size_bytes=8, after=[launch], dep=DepKind.LAUNCH,
            ))  # fmt: skip
    job = check(b.build())
    assert followed(job).any()
    made = check(late(job, ONE_CORE))
    assert (made.ops.kind == OpKind.CORE_WAIT).sum() == 4
    assert made.ops.instance[followed(made)].tolist() == job.ops.instance[followed(job)].tolist()
