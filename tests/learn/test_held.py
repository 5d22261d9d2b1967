"""Rounds on hosts with CPU quotas: what waiting gives back, and what messages take."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paceline.cluster import Cluster, Device, Host, Link
from paceline.cluster.machine import Machine
from paceline.graph import OpKind
from paceline.learn import LearnRun, Meeting, load, round_time, rounds_as_graph, save
from paceline.learn.held import held
from paceline.learn.record import ClientWork, Judged, Round, Trip
from paceline.learn.round_graph import Around
from paceline.measure.handling import Handling
from paceline.predict import Question
from paceline.replay import replay
from paceline.replay.quota import Quota, worked

PERIOD_NS = 20_000_000
MS = 1_000_000


def cluster(*cpus: float, mbit: float = 1000.0) -> Cluster:
    hosts = tuple(Host(f"h{n}", Device("core"), cpus=share) for n, share in enumerate(cpus))
    return Cluster(hosts, Link.both_ways(mbit * 1e6 / 8))


def drawn(*work_ms: float, size_bytes: int = 1000, every: int = 0, rounds: int = 60) -> LearnRun:
    """Clients of unequal work that send to one another."""
    clients = range(len(work_ms))
    trips = tuple(Trip(n, tuple(clients), size_bytes) for n in clients)
    works = tuple(ClientWork(n, 32, 32.0, ms / 1e3) for n, ms in enumerate(work_ms))
    each = tuple(Round(n, works, trips) for n in range(rounds))
    judged = tuple(Judged(n, 0.5, 0) for n in range(every - 1, rounds, every)) if every else ()
    told = ("dgc()", "Equal()", 0.0, len(work_ms), 1, Meeting.ALL, 0, 5000, 1, "toy")
    return LearnRun(*told, each, judged)


def mean_ms(run: LearnRun, place: Cluster) -> float:
    return 1e3 * round_time(run, place).mean_s


def test_a_round_that_waits_for_a_slow_link_is_not_slowed_by_a_quota() -> None:
    """20 ms of link and 2 ms of work: a fifth of a core has done them meanwhile."""
    run, slow = drawn(2.0, 2.0, size_bytes=25_000), 10.0
    free = mean_ms(run, cluster(0, 0, mbit=slow))
    assert free == pytest.approx(22.0, rel=0.05)
    assert mean_ms(run, cluster(0, 0.2, mbit=slow)) == pytest.approx(free, rel=0.02)


def test_a_round_of_work_alone_takes_the_work_over_the_quota() -> None:
    run = drawn(4.8, 4.8)
    assert mean_ms(run, cluster(0, 0.2)) == pytest.approx(24.0, rel=0.08)
    assert mean_ms(run, cluster(0.2, 0.2)) == pytest.approx(24.0, rel=0.08)


@settings(max_examples=20, deadline=None)
@given(st.floats(0.5, 30.0), st.floats(0.15, 0.9), st.integers(100, 40_000))
def test_a_round_is_bounded_by_its_chain_and_by_its_processor(
    work_ms: float, cpus: float, size: int
) -> None:
    run = drawn(work_ms, work_ms, size_bytes=size)
    chain = mean_ms(run, cluster(0, 0, mbit=20.0))
    found = mean_ms(run, cluster(0, cpus, mbit=20.0))
    assert found > 0.999 * chain
    assert found > 0.85 * work_ms / cpus - 20.0 * 4 / 24  # the first rounds have whole budgets
    assert found < 1.02 * (chain + work_ms * (1 / cpus - 1)) + 20.0


def test_the_replay_stays_where_the_quotas_law_puts_it() -> None:
    """One rank that only works: its rounds end when the law says."""
    graph = rounds_as_graph(drawn(3.0), 1)
    quota = Quota(0.2, PERIOD_NS)

    def replayed(dur_ns):
        return replay(graph, prices=dur_ns)

    found = held(replayed, graph, graph.ops.dur_ns, {0: quota})
    waits = [op for op in range(len(graph)) if graph.ops.kind[op] == OpKind.CORE_WAIT]
    ends, _ = worked(quota, [(0, 3 * MS)] * 60)
    assert [int(found.end_ns[op]) for op in waits[::2]] == ends
    free = held(replayed, graph, graph.ops.dur_ns, {})
    assert free.step_ns == 60 * 3 * MS


def test_quotas_that_hold_all_back_leave_cores_enough() -> None:
    """Four workers of 0.45 cores share two: each gets its quota, as if it were alone."""
    run, place = drawn(26.0, 26.0, 26.0, 26.0, size_bytes=100), cluster(0.45, 0.45, 0.45, 0.45)
    found = round_time(run, place, Question(machine=Machine(2.0)))
    assert 1e3 * found.mean_s == pytest.approx(26 / 0.45, rel=0.05)


def test_messages_take_of_a_quota_what_they_take_of_the_processor() -> None:
    """Two ms of work alone fit in a round's budget, with two of messages they do not."""
    place, run = cluster(0, 0.2), drawn(2.0, 2.0)
    handling = Handling(call_ns=1e6, message_ns=0.5e6)
    graph = rounds_as_graph(run, 2, run.rounds[:5], Around(handling))
    took = sum(op.dur_ns for op in graph if op.rank == 1 and op.kind is OpKind.COMPUTE)
    assert took == 5 * (2 + 2) * MS
    assert mean_ms(run, place) == pytest.approx(10.0, rel=0.1)


def test_others_work_ahead_while_worker_0_judges() -> None:
    """Without a quota the round behind a judgement hides the other's work, where that is longer."""
    run = drawn(1.0, 5.0, every=4)
    assert mean_ms(replace(run, judged=()), cluster(0, 0)) == pytest.approx(5.2, rel=0.05)
    assert mean_ms(run, cluster(0, 0)) == pytest.approx((3 * 5.2 + 1.2) / 4, rel=0.05)


def test_what_was_recorded_judges_as_often_when_it_is_read_again(tmp_path) -> None:
    run = drawn(1.0, 5.0, every=4)
    save([run], tmp_path)
    assert mean_ms(load(tmp_path)[0], cluster(0, 0)) == pytest.approx(mean_ms(run, cluster(0, 0)))
