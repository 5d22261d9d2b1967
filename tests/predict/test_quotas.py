"""Workers with quotas of a core, among others on one machine."""

from collections.abc import Sequence

import numpy as np
import pytest

from paceline.cluster import Cluster, Device, Host, Link
from paceline.cluster.machine import Machine
from paceline.graph import Axis, Collective, DepKind, Graph, GraphBuilder, LaneKind, OpKind, check
from paceline.predict import Question, predict
from paceline.predict.late import LANE
from paceline.predict.quotas import Seats, seats
from paceline.predict.sharing import Shared
from paceline.replay import replay

MS = 1_000_000


def cluster(cpus: Sequence[float]) -> Cluster:
    """Hosts by their quotas; 0 is none."""
    hosts = [Host(f"h{i}", Device("core"), cpus=share) for i, share in enumerate(cpus)]
    return Cluster(tuple(hosts), Link.both_ways(12.5e6))


def seated(*cpus: float, cores: float = 2.0) -> Seats:
    return seats(cluster(cpus), Machine(cores))


def job(workers: int = 2, *, beside: bool = True) -> Graph:
    """40 ms of work on every worker, beside an all-reduce of 100 ms or before it."""
    b = GraphBuilder()
    group = b.group("0", tuple(range(workers)), Axis.DATA)
    instance = b.instance()
    for rank in range(workers):
        main, gloo = b.lane(rank, "main"), b.lane(rank, "gloo", kind=LaneKind.COMM_THREAD)
        asked = b.op("ask", main, kind=OpKind.HOST)
        worked = b.op("mm", main, 40 * MS)
        b.op(
            "all_reduce", gloo, 100 * MS, kind=OpKind.COLLECTIVE, collective=Collective.ALL_REDUCE,
            group=group, instance=instance, size_bytes=8, after=[asked if beside else worked],
            dep=DepKind.LAUNCH,
        )  # fmt: skip
    return check(b.build())


def taken(graph: Graph, cpu_ms: float = 0, turn_ms: float = 0, beside_ms: float = 0) -> Shared:
    """By the all-reduce."""
    talks = graph.ops.kind == OpKind.COLLECTIVE
    return Shared(*(np.where(talks, round(ms * MS), 0) for ms in (cpu_ms, turn_ms, beside_ms)))


def ends_ms(name: str, seating: Seats, **taken_ms: float) -> list[float]:
    graph = job()
    timeline = replay(graph, hosts=seating.hosts(graph, taken(graph, **taken_ms)))
    rows = [row for row in range(len(graph)) if graph.text(int(graph.ops.name[row])) == name]
    return [round(float(timeline.end_ns[row]) / MS, 1) for row in rows]


def test_a_worker_with_a_quota_has_a_part_of_a_core_to_itself_and_others_share_the_rest() -> None:
    found = seated(0.5, 0, 0)
    assert found == Seats((1, 0, 0), (1.5, 0.5), (True, False, False))
    assert found.crowded, "two on one and a half"
    assert not seated(0.5, 0).crowded


def test_quotas_that_fit_leave_nothing_to_share() -> None:
    found = seated(0.5, 0.5, 0.5, 0.5)
    assert found == Seats((0, 1, 2, 3), (0.5,) * 4, (True,) * 4)
    assert not found.crowded


def test_a_quota_above_the_fair_share_of_the_cores_changes_nothing() -> None:
    found = seated(0.9, 0.9, 0.9, 0.9)
    assert found == Seats((0, 0, 0, 0), (2.0,), (False,) * 4)
    assert found.crowded


def test_what_messages_cost_a_worker_comes_out_of_its_quota() -> None:
    """5 ms of processor in 100 ms are a twentieth of a core: of a half, 0.45 are left for work."""
    assert ends_ms("mm", seated(0.5, 0)) == [80, 40]
    assert ends_ms("mm", seated(0.5, 0), cpu_ms=5) == [88.9, 40]
    assert ends_ms("all_reduce", seated(0.5, 0), cpu_ms=5) == [100, 100]


def test_a_worker_held_by_its_quota_waits_for_no_turn_among_idle_cores() -> None:
    dear: dict[str, float] = {"turn_ms": 50, "beside_ms": 20}
    assert ends_ms("mm", seated(0.5, 0.5), **dear) == [80, 80]
    assert ends_ms("all_reduce", seated(0.5, 0.5), **dear) == [100, 100]
    assert min(ends_ms("all_reduce", seated(0, 0, cores=1.0), **dear)) > 110


QUOTAS = [((0.5,) * 4, False), ((0,) * 4, True), ((0.9,) * 4, True)]


@pytest.mark.parametrize(("cpus", "waits"), QUOTAS)
def test_collectives_wait_for_the_last_where_workers_are_more_than_their_cores(
    cpus: tuple[float, ...], waits: bool
) -> None:
    asked = Question(Machine(2.0, cpu_ns_per_byte=0.0, turn_ns=0.0, together_ns=2.0 * MS))
    found = predict(job(4, beside=False), [], cluster(cpus), asked)
    assert (LANE in found.timeline.graph.lanes.name) == waits
