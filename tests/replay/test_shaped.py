"""Messages over shaped links between workers that share cores: by hand."""

from dataclasses import dataclass, replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paceline.cluster import Cluster, Device, Host, Link
from paceline.cluster.network import Network
from paceline.engine import native
from paceline.errors import ReplayError
from paceline.graph import Axis, Collective, DepKind, Graph, GraphBuilder, LaneKind, OpKind
from paceline.replay import Engine, Shaping, SharedHosts, Timeline, replay, shaped_links
from paceline.replay.shaped_pace import max_min

RATE = 1e9
"""Bytes a second: a byte a nanosecond."""


def star(workers: int) -> Cluster:
    hosts = tuple(Host(f"h{i}", Device("core")) for i in range(workers))
    return Cluster(hosts, Link.both_ways(RATE))


def messages(*ends: tuple[int, int], size: int = 1_000_000) -> Graph:
    """All at once, each on lanes of its own."""
    b = GraphBuilder()
    for source, target in ends:
        message(b, source, target, size)
    return b.build()


def message(b: GraphBuilder, source: int, target: int, size: int) -> None:
    instance = b.instance()
    for rank, kind, lane in (
        (source, OpKind.SEND, LaneKind.LINK_OUT),
        (target, OpKind.RECV, LaneKind.LINK_IN),
    ):
        b.op("message", b.lane(rank, "wire", kind=lane), 0, kind=kind, instance=instance,
             size_bytes=size, collective=Collective.POINT_TO_POINT)  # fmt: skip


@dataclass(frozen=True)
class Lab:
    """A machine with all workers and links on it."""

    shaping: Shaping
    cores: float


def host(
    workers: int, *, burst: float = 0.0, cores: float = 2.0, cpu: float = 1e-3, message_ns: int = 0
) -> Lab:
    bursts = (burst,) * len(Network(star(workers)).links)
    return Lab(Shaping(cpu, bursts, message_ns), cores)


def line(graph: Graph, workers: int, lab: Lab) -> Timeline:
    """The timeline, which all engines agree on."""
    hosts = SharedHosts.one_machine(workers, lab.cores)
    found = [
        replay(
            graph,
            transfers=shaped_links(graph, star(workers), lab.shaping, reference=reference),
            hosts=hosts,
            engine=engine,
        )
        for engine in (Engine.NATIVE, Engine.REFERENCE)
        for reference in (False, True)
        if engine is Engine.REFERENCE or native()
    ]
    assert all(one.end_ns.tolist() == found[0].end_ns.tolist() for one in found)
    return found[0]


def ends_ns(graph: Graph, workers: int, window: float) -> list[int]:
    """When each message is there, of senders that queue so many bytes of each."""
    lab = host(workers)
    lab = replace(lab, shaping=replace(lab.shaping, window_bytes=window))
    ends = line(graph, workers, lab).end_ns
    return [int(ends[op]) for op in np.flatnonzero(graph.ops.kind == OpKind.RECV)]


def step_ns(graph: Graph, workers: int, on: Lab) -> int:
    return line(graph, workers, on).step_ns


def test_a_message_takes_its_bytes_over_the_rate_after_its_delay() -> None:
    assert step_ns(messages((0, 1)), 2, host(2)) == 1_000_000
    assert step_ns(messages((0, 1)), 2, host(2, message_ns=70)) == 1_000_070


def exchange(*, sizes: tuple[int, int], later_ns: int, one_group: bool = True) -> Graph:
    """Two workers hand over a message and then ask for the other's, the second one later."""
    b = GraphBuilder()
    groups = [b.group(name, (0, 1), Axis.PIPELINE) for name in ("there", "back")]
    groups = groups[:1] * 2 if one_group else groups
    there, back = b.instance(), b.instance()
    for rank in (0, 1):
        main = b.lane(rank)
        b.op("works", main, later_ns * rank)
        for kind in (OpKind.SEND, OpKind.RECV):
            first = (kind is OpKind.SEND) == (rank == 0)
            lane = b.lane(rank, kind.name, kind=LaneKind.COMM_THREAD)
            handed = b.op("hand over", main, 0, kind=OpKind.HOST)
            b.op("message", lane, 0, kind=kind, after=[handed], dep=DepKind.LAUNCH,
                 instance=there if first else back, group=groups[not first],
                 size_bytes=sizes[not first])  # fmt: skip
    return b.build()


def test_messages_the_other_way_on_one_connection_follow_one_another() -> None:
    lab = host(2)
    one_way = replace(lab, shaping=replace(lab.shaping, one_way=True))
    graph = exchange(sizes=(1_000_000, 500_000), later_ns=0)
    assert step_ns(graph, 2, lab) == 1_000_000
    assert step_ns(graph, 2, one_way) == 1_500_000
    apart = exchange(sizes=(1_000_000, 500_000), later_ns=0, one_group=False)
    assert step_ns(apart, 2, one_way) == 1_000_000


@settings(deadline=None, max_examples=60)
@given(
    sizes=st.tuples(st.integers(0, 10**6), st.integers(0, 10**6)),
    later_ns=st.integers(0, 2 * 10**6),
    burst=st.one_of(st.just(0.0), st.floats(0, 10**6)),
    cores=st.sampled_from([0.5, 2.0]),
    message_ns=st.integers(0, 10**5),
)
def test_an_exchange_on_one_connection_takes_no_less_than_on_two_where_no_link_has_saved_up(
    sizes: tuple[int, int], later_ns: int, burst: float, cores: float, message_ns: int
) -> None:
    graph = exchange(sizes=sizes, later_ns=later_ns)
    lab = host(2, burst=burst, cores=cores, message_ns=message_ns)
    one_way = replace(lab, shaping=replace(lab.shaping, one_way=True))
    apart_ns, rounding_ns = step_ns(graph, 2, lab), 4
    assert step_ns(graph, 2, one_way) + rounding_ns >= apart_ns or burst


def test_a_message_waits_for_what_its_sender_has_queued_before_and_then_shares() -> None:
    """300 KB alone, then both at half the rate: 0.7 ms more for the first's other half, twice."""
    assert ends_ns(messages((0, 1), (0, 2)), 3, 300_000.0) == [1_700_000, 2_000_000]
    assert ends_ns(messages((0, 1), (0, 2)), 3, 1e9) == [1_000_000, 2_000_000]
    assert ends_ns(messages((0, 1), (0, 2)), 3, 0.0) == [2_000_000, 2_000_000]


def test_a_word_waits_in_its_senders_queue_and_nowhere_else() -> None:
    """Sent by the one that sends a message too, or by the one that receives it."""
    for source, target, waits_ns in ((0, 2, 300_000), (1, 0, 0), (2, 1, 0)):
        b = GraphBuilder()
        message(b, 0, 1, 1_000_000)
        message(b, source, target, 0)
        assert ends_ns(b.build(), 3, 300_000.0) == [1_000_000, waits_ns]


@settings(deadline=None, max_examples=50)
@given(
    st.lists(st.tuples(st.integers(1, 3), st.integers(0, 2_000_000)), min_size=1, max_size=6),
    st.floats(0.0, 3e6),
)
def test_a_senders_link_is_never_idle_while_it_has_messages(
    sent: list[tuple[int, int]], window: float
) -> None:
    b = GraphBuilder()
    for target, size in sent:
        message(b, 0, target, size)
    assert max(ends_ns(b.build(), 4, window)) == pytest.approx(sum(n for _, n in sent), abs=20)


def test_both_directions_of_a_link_are_apart() -> None:
    assert step_ns(messages((0, 1), (1, 0)), 2, host(2)) == 1_000_000


def test_messages_that_meet_on_a_link_share_it() -> None:
    assert step_ns(messages((0, 2), (1, 2)), 3, host(3)) == 2_000_000


def test_after_a_rest_a_link_is_ahead_of_its_rate_by_the_burst() -> None:
    took = step_ns(messages((0, 1)), 2, host(2, burst=200_000.0))
    assert took == pytest.approx(800_000, rel=0.003)


def test_processor_time_of_a_message_bounds_it() -> None:
    """Half a byte's 4 ns at either end: a core moves half a byte a ns, and where both ends share
    one a quarter, less the twentieth that threads keep."""
    assert step_ns(messages((0, 1)), 2, host(2, cpu=4.0, cores=3.0)) == 2_000_000
    alone = step_ns(messages((0, 1)), 2, host(2, cpu=4.0, cores=1.0))
    assert alone == pytest.approx(4_000_000 / 0.95, rel=1e-6)


def test_messages_take_processor_time_from_work() -> None:
    """On one core: a message wants 2 x 1/5 of it for its millisecond, and work gets the rest."""
    b = GraphBuilder()
    b.op("work", b.lane(0, "main"), 1_200_000)
    instance = b.instance()
    for rank, kind in ((0, OpKind.SEND), (1, OpKind.RECV)):
        b.op("message", b.lane(rank, "wire", kind=LaneKind.LINK_OUT), 0, kind=kind,
             instance=instance, size_bytes=1_000_000)  # fmt: skip
    took = step_ns(b.build(), 2, host(2, cpu=0.4, cores=1.0))
    assert took == pytest.approx(1_000_000 + 600_000, rel=1e-4)


def test_work_on_idle_cores_is_slowed_by_messages_too() -> None:
    """The kernel takes its time evenly from both cores: a fifth of each for a millisecond."""
    b = GraphBuilder()
    b.op("work", b.lane(0, "main"), 1_000_000)
    instance = b.instance()
    for rank, kind in ((0, OpKind.SEND), (1, OpKind.RECV)):
        b.op("message", b.lane(rank, "wire", kind=LaneKind.LINK_OUT), 0, kind=kind,
             instance=instance, size_bytes=1_000_000)  # fmt: skip
    assert step_ns(b.build(), 2, host(2, cpu=0.4)) == pytest.approx(1_200_000, rel=1e-4)


@pytest.mark.parametrize(("workers", "late"), [(1, 0), (2, 500)])
def test_a_message_comes_late_where_all_cores_work(workers: int, late: int) -> None:
    b = GraphBuilder()
    for rank in range(workers):
        b.op("work", b.lane(rank, "main"), 10)
    instance = b.instance()
    for rank, kind in ((0, OpKind.SEND), (1, OpKind.RECV)):
        b.op("message", b.lane(rank, "wire", kind=LaneKind.LINK_OUT), 0, kind=kind,
             instance=instance, size_bytes=1_000_000)  # fmt: skip
    bursts = (0.0,) * len(Network(star(2)).links)
    lab = Lab(Shaping(1e-3, bursts, late_ns=500), cores=2.0)
    assert step_ns(b.build(), 2, lab) == 1_000_000 + late


@settings(deadline=None, max_examples=50)
@given(
    st.lists(st.sets(st.integers(0, 3), min_size=1), min_size=1, max_size=5),
    st.lists(st.floats(0.1, 9.0), min_size=4, max_size=4),
    st.floats(0.1, 5.0),
)
def test_max_min_fills_links_and_no_flow_can_gain(
    paths: list[set[int]], capacity: list[float], most: float
) -> None:
    rates = max_min([sorted(p) for p in paths], capacity, most)
    used = [sum(r for r, p in zip(rates, paths) if link in p) for link in range(4)]
    assert all(u <= c * (1 + 1e-9) for u, c in zip(used, capacity))
    for rate, path in zip(rates, paths):
        full = [link for link in path if used[link] >= capacity[link] * (1 - 1e-9)]
        rivals = [max(r for r, p in zip(rates, paths) if link in p) for link in full]
        assert rate >= most * (1 - 1e-9) or any(rate >= r * (1 - 1e-9) for r in rivals)


def test_bursts_must_be_given_for_every_link() -> None:
    with pytest.raises(ReplayError, match=r"1 bursts were given for \d+ links"):
        shaped_links(messages((0, 1)), star(2), Shaping(1.0, (0.0,)))


def test_without_hosts_messages_and_work_take_nothing_from_each_other() -> None:
    """On one core of 4 ns a byte the message would take 4.2 ms; half of it at either end: 2 ms."""
    b = GraphBuilder()
    b.op("work", b.lane(0, "main"), 1_200_000)
    message(b, 0, 1, 1_000_000)
    graph, lab = b.build(), host(2, cpu=4.0, cores=1.0)
    alone = replay(graph, transfers=shaped_links(graph, star(2), lab.shaping))
    assert alone.end_ns.tolist() == [1_200_000, 2_000_000, 2_000_000]


def test_a_message_takes_processor_time_at_both_of_its_ends() -> None:
    """Of a core each, 4 ns a byte: the core of either machine moves half a byte a ns, or 0.95 of
    that where it must leave the rest for work; a third machine's work is not slowed."""
    b = GraphBuilder()
    works = [b.op("work", b.lane(rank, "main"), 1_000_000) for rank in range(3)]
    message(b, 0, 1, 1_000_000)
    graph, lab = b.build(), host(3, cpu=4.0)
    found = replay(
        graph,
        transfers=shaped_links(graph, star(3), lab.shaping),
        hosts=SharedHosts((0, 1, 2), (1.0, 1.0, 1.0)),
    )
    took = 1_000_000 * 2 / 0.95
    slowed = took + 1_000_000 - 0.05 * took
    assert found.end_ns[works].tolist() == pytest.approx([slowed, slowed, 1_000_000], abs=2)


def test_messages_too_long_for_a_timeline_are_refused() -> None:
    with pytest.raises(ReplayError, match="Check sizes, links and cores"):
        step_ns(messages((0, 1), size=2**62), 2, host(2))


@pytest.mark.parametrize("wrong", [(0.0, 0), (-1.0, 0), (1.0, -1)])
def test_messages_of_negative_cost_are_refused(wrong: tuple[float, int]) -> None:
    cpu, message_ns = wrong
    with pytest.raises(ReplayError, match="above zero"):
        Shaping(cpu, (), message_ns)
