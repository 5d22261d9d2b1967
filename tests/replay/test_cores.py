"""Replay of workers that share processor cores."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paceline.engine import native
from paceline.errors import ReplayError
from paceline.graph import Collective, DepKind, Graph, GraphBuilder, LaneKind, OpKind
from paceline.replay import Contention, Engine, SharedHosts, Timeline, replay
from paceline.replay.cores import fair_shares


def workers(count: int, work_ns: int, talk_ns: int = 0) -> Graph:
    """Each works, then all talk."""
    made = GraphBuilder()
    group = made.group("all", range(count))
    instance = made.instance()
    for rank in range(count):
        lane = made.lane(rank, "main")
        work = made.op("work", lane, work_ns)
        if talk_ns:
            talk = made.lane(rank, "net", kind=LaneKind.COMM_THREAD)
            made.op(
                "all_reduce", talk, talk_ns, after=[work], dep=DepKind.LAUNCH,
                kind=OpKind.COLLECTIVE, collective=Collective.ALL_REDUCE, group=group,
                instance=instance, size_bytes=1,
            )  # fmt: skip
    return made.build()


def beside() -> Graph:
    """One worker's work, and a collective beside it, 1,000 ns each."""
    made = GraphBuilder()
    group, instance = made.group("all", [0]), made.instance()
    made.op("work", made.lane(0, "main"), 1000)
    net = made.lane(0, "net", kind=LaneKind.COMM_THREAD)
    made.op("all_reduce", net, 1000, kind=OpKind.COLLECTIVE, collective=Collective.ALL_REDUCE,
            group=group, instance=instance)  # fmt: skip
    return made.build()


def on(graph: Graph, hosts: SharedHosts) -> Timeline:
    """The timeline, which all engines agree on."""
    reference = replay(graph, hosts=hosts, engine=Engine.REFERENCE)
    if native():
        found = replay(graph, hosts=hosts, engine=Engine.NATIVE)
        assert found.end_ns.tolist() == reference.end_ns.tolist()
    return reference


def test_as_many_workers_as_cores_are_as_fast_as_alone() -> None:
    graph = workers(2, 1000)
    assert on(graph, SharedHosts.one_machine(2, 2)).step_ns == 1000


def test_twice_as_many_workers_as_cores_take_twice_as_long() -> None:
    assert on(workers(4, 1000), SharedHosts.one_machine(4, 2)).step_ns == 2000


def test_what_is_computed_on_a_librarys_thread_takes_a_core_like_any_work() -> None:
    made = GraphBuilder()
    for rank in range(2):
        made.op("unpack", made.lane(rank, "net", kind=LaneKind.COMM_THREAD), 1000)
    graph = made.build()
    assert on(graph, SharedHosts.one_machine(2, 2)).step_ns == 1000
    assert on(graph, SharedHosts.one_machine(2, 1)).step_ns == 2000
    needs = np.full(2, 10)
    with pytest.raises(ReplayError, match="takes a whole core"):
        replay(graph, hosts=SharedHosts.one_machine(2, 1, needs))


def test_machines_do_not_disturb_each_other() -> None:
    graph = workers(4, 1000)
    assert on(graph, SharedHosts((0, 0, 1, 1), (2, 1))).step_ns == 2000
    assert on(graph, SharedHosts((0, 1, 2, 3), (1, 1, 1, 1))).step_ns == 1000


def test_communication_that_needs_more_than_the_cores_is_slowed_to_what_they_give() -> None:
    graph = workers(4, 0, talk_ns=1000)
    needs = np.where(graph.ops.kind == OpKind.COLLECTIVE, 750, 0)  # 3 cores' worth on 2
    assert on(graph, SharedHosts.one_machine(4, 2, needs)).step_ns == 1500


def test_communication_takes_from_the_work_it_overlaps() -> None:
    line = on(beside(), SharedHosts.one_machine(1, 1, np.array([0, 250])))
    # Three quarters of the core for the work while 1,000 ns of talk last, then all of it.
    assert line.end_ns.tolist() == [1250, 1000]


def test_beside_work_on_all_cores_communication_takes_more_processor_time() -> None:
    graph, takes, more = beside(), np.array([0, 250]), np.array([0, 150])
    taken = on(graph, SharedHosts.one_machine(1, 1, takes, beside_ns=more))
    assert taken.end_ns.tolist() == [1400, 1000]  # 0.4 of the core while 1,000 ns of talk last
    free = on(graph, SharedHosts.one_machine(1, 2, takes, beside_ns=more))
    assert free.end_ns.tolist() == [1000, 1000]


def test_without_work_beside_it_communication_takes_what_it_takes_alone() -> None:
    graph = workers(4, 0, talk_ns=1000)
    needs, more = (np.where(graph.ops.kind == OpKind.COLLECTIVE, ns, 0) for ns in (750, 9000))
    hosts = SharedHosts.one_machine(4, 2, needs, beside_ns=more)
    assert on(graph, hosts).step_ns == 1500


def test_while_work_takes_all_cores_communication_waits_for_its_turn() -> None:
    graph, turns = beside(), np.array([0, 1000])
    taken = on(graph, SharedHosts.one_machine(1, 1, turn_ns=turns))
    assert taken.end_ns.tolist() == [1000, 1500]  # at half its pace until the work is done
    free = on(graph, SharedHosts.one_machine(1, 2, turn_ns=turns))
    assert free.end_ns.tolist() == [1000, 1000]


def test_waits_are_one_for_each_op() -> None:
    with pytest.raises(ReplayError, match="one of zero or more each"):
        on(workers(2, 10), SharedHosts.one_machine(2, 2, turn_ns=np.array([1])))


@settings(deadline=None, max_examples=40)
@given(
    durations=st.lists(st.integers(1, 10_000), min_size=1, max_size=6),
    cores=st.floats(0.25, 8),
)
def test_cores_are_never_oversold_and_never_idle(durations: list[int], cores: float) -> None:
    made = GraphBuilder()
    for rank, dur in enumerate(durations):
        made.op("work", made.lane(rank, "main"), dur)
    line = on(made.build(), SharedHosts.one_machine(len(durations), cores))
    least = max(max(durations), sum(durations) / cores)
    most = max(durations) * max(1.0, len(durations) / cores)
    assert least - 1 <= line.step_ns <= most + len(durations) + 1


@settings(deadline=None, max_examples=40)
@given(work=st.integers(1, 1000), talk=st.integers(1, 1000), count=st.integers(1, 5))
def test_enough_cores_change_nothing(work: int, talk: int, count: int) -> None:
    graph = workers(count, work, talk)
    shared = on(graph, SharedHosts.one_machine(count, 2 * count))
    assert shared.end_ns.tolist() == replay(graph).end_ns.tolist()


def test_shares_are_fair_to_those_that_want_little() -> None:
    assert fair_shares([1.0, 0.2, 1.0], 1.2) == [0.5, 0.2, 0.5]
    assert fair_shares([0.0, 1.0], 2.0) == [0.0, 1.0]


def test_a_rank_without_a_machine_is_refused() -> None:
    with pytest.raises(ReplayError, match="rank 1"):
        on(workers(2, 10), SharedHosts((0,), (1,)))
    with pytest.raises(ReplayError, match="machines"):
        SharedHosts((0, 3), (1.0,))
    with pytest.raises(ReplayError, match="more than zero"):
        SharedHosts((0,), (0.0,))


def test_processor_time_is_for_communication() -> None:
    hosts = SharedHosts.one_machine(1, 1, np.array([250, 250]))
    with pytest.raises(ReplayError, match="takes a whole core"):
        replay(beside(), hosts=hosts)


def test_cores_and_contention_are_not_counted_twice() -> None:
    slower = Contention.everywhere(beside(), compute=2, communication=2)
    with pytest.raises(ReplayError, match="not both"):
        replay(beside(), hosts=SharedHosts.one_machine(1, 1), contention=slower)


def test_work_that_so_few_cores_would_take_too_long_for_is_refused() -> None:
    with pytest.raises(ReplayError, match="must stay below"):
        replay(workers(2, 2**40), hosts=SharedHosts.one_machine(2, 1e-7))
