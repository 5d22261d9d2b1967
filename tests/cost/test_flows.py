"""Flows on shared links: fair shares by hand, the closed form, and native equals plain Python."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paceline.cluster import Network, parse
from paceline.cost import CostError
from paceline.cost.carried import carried
from paceline.cost.collectives import ALGORITHMS, Call, Library, closed_ns
from paceline.cost.flows import Flow, FlowTable, Messages, coflow, flows_ns, messages_of, simulate
from paceline.graph import NONE, UNPRICED, Collective, GraphBuilder, OpKind

GBPS = 1e9  # bytes a second here


def independent(flows: list[Flow], capacity: list[float], release: list[int]) -> Messages:
    return Messages(
        FlowTable.of(flows, np.array(capacity)),
        np.zeros(len(flows) + 1, np.int64),
        np.zeros(0, np.int32),
        np.array(release, np.int64),
    )


def ends(made: Messages) -> list[int]:
    native, plain = simulate(made), simulate(made, reference=True)
    assert native.end_ns.tolist() == plain.end_ns.tolist()
    assert native.start_ns.tolist() == plain.start_ns.tolist()
    assert native.events == plain.events
    return native.end_ns.tolist()


def test_a_lone_flow_has_the_whole_link_and_then_its_tail() -> None:
    assert ends(independent([Flow(1000, {0: 1.0}, tail_ns=7)], [GBPS], [5])) == [5 + 1000 + 7]


def test_two_flows_halve_a_link_until_one_has_gone() -> None:
    flows = [Flow(1000, {0: 1.0}), Flow(3000, {0: 1.0})]
    assert ends(independent(flows, [GBPS], [0, 0])) == [2000, 4000]


def test_ops_that_meet_share_a_flow_and_others_have_their_own() -> None:
    b = GraphBuilder()
    group, met = b.group("pair", (0, 1)), b.instance()
    for rank in (0, 1):
        lane = b.lane(rank)
        b.op("work", lane, 5)
        for instance in (met, NONE):
            b.op("sum", lane, UNPRICED, kind=OpKind.COLLECTIVE, collective=Collective.ALL_REDUCE,
                 size_bytes=8, group=group, instance=instance)  # fmt: skip
    cluster = parse("{hosts: 2, link: {rate: 8Gbps}}")
    found = carried(b.build(), cluster)
    assert found.carried.tolist() == [False, True, True] * 2
    first, alone, second, other = found.flow_of_op[found.carried].tolist()
    assert first == second
    assert len({first, alone, other}) == 3


def test_a_late_flow_slows_the_first_from_then_on() -> None:
    flows = [Flow(2000, {0: 1.0}), Flow(1000, {0: 1.0})]
    assert ends(independent(flows, [GBPS], [0, 1000])) == [3000, 3000]


def test_what_one_flow_cannot_use_goes_to_the_other() -> None:
    slow = Flow(1000, {0: 1.0, 1: 1.0})  # link 1 holds it at a quarter
    fast = Flow(3000, {0: 1.0})
    assert ends(independent([slow, fast], [GBPS, GBPS / 4], [0, 0])) == [4000, 4000]


def test_a_weight_takes_its_multiple_of_a_link() -> None:
    heavy, light = Flow(1000, {0: 3.0}), Flow(1000, {0: 1.0})
    assert ends(independent([heavy, light], [4 * GBPS], [0, 0])) == [1000, 1000]


def test_flows_without_bytes_or_links_take_their_tail_alone() -> None:
    flows = [Flow(0, {0: 1.0}, tail_ns=3), Flow(500, {}, tail_ns=4), Flow(0, {})]
    assert ends(independent(flows, [GBPS], [0, 0, 9])) == [3, 4, 9]


def test_messages_that_wait_for_each_other_are_refused() -> None:
    made = independent([Flow(1, {0: 1.0}), Flow(1, {0: 1.0})], [GBPS], [0, 0])
    ring = Messages(made.table, np.array([0, 1, 2]), np.array([1, 0], np.int32), made.release_ns)
    for reference in (False, True):
        with pytest.raises(CostError, match="wait for each other"):
            simulate(ring, reference=reference)


LIBRARY = Library("test", call_ns=500, message_ns=1000, reduce_bytes_per_s=5e9)


@pytest.mark.parametrize("topology", ["star", "ring", "{kind: leaf-spine, oversubscription: 3.0}"])
@pytest.mark.parametrize("name", sorted(ALGORITHMS))
def test_a_collective_of_messages_takes_the_time_of_the_closed_form(
    name: str, topology: str
) -> None:
    text = f"{{hosts: 8, link: {{rate: 8Gbps, latency: 5us}}, topology: {topology}}}"
    net = Network(parse(text))
    for how in ALGORITHMS[name].serves:
        call = Call(how, 3_000_000, tuple(range(8)))
        closed = closed_ns(ALGORITHMS[name], call, net, range(8), LIBRARY)
        flows = flows_ns(ALGORITHMS[name], call, net, range(8), LIBRARY)
        # A message need not wait for the slowest of the round before: never later, hardly sooner.
        assert flows <= closed * 1.001
        assert flows >= closed * 0.75
        whole = simulate(independent([coflow(ALGORITHMS[name], call, net, range(8), LIBRARY)],
                                     net.bytes_per_s.tolist(), [0]))  # fmt: skip
        assert whole.end_ns[0] == pytest.approx(closed, rel=1e-6, abs=2)


@pytest.mark.parametrize("size", [0, 3_000, 300_000_000])
def test_messages_that_stall_take_the_time_of_the_closed_form(size: int) -> None:
    net = Network(parse("{hosts: 4, link: {rate: 1Gbps, latency: 5us}}"))
    call = Call(Collective.ALL_REDUCE, size, tuple(range(4)))
    stalled = replace(LIBRARY, stall_ns=400_000.0)
    closed = closed_ns(ALGORITHMS["gloo"], call, net, range(4), stalled)
    assert flows_ns(ALGORITHMS["gloo"], call, net, range(4), stalled) == pytest.approx(closed)
    whole = coflow(ALGORITHMS["gloo"], call, net, range(4), stalled)
    found = simulate(independent([whole], net.bytes_per_s.tolist(), [0]))
    assert found.end_ns[0] == pytest.approx(closed, rel=1e-6, abs=2)


def test_native_and_plain_agree_on_a_collective_to_the_nanosecond() -> None:
    net = Network(
        parse(
            "{hosts: 6, link: {rate: 7Gbps, latency: 3us}, "
            "topology: {kind: leaf-spine, oversubscription: 1.7}}"
        )
    )
    for name in ("gloo", "double-tree", "halving-doubling", "parameter-server"):
        call = Call(Collective.ALL_REDUCE, 1_234_567, tuple(range(6)))
        ends(messages_of(ALGORITHMS[name].rounds(call), net, range(6), LIBRARY))


@st.composite
def random_messages(draw: st.DrawFn) -> Messages:
    links = draw(st.integers(1, 5))
    capacity = draw(st.lists(st.floats(1e6, 1e10), min_size=links, max_size=links))
    weights = st.sampled_from([1.0, 1.0, 0.5, 2.0, 0.3])
    flow = st.builds(
        Flow,
        st.one_of(st.floats(1e-3, 1e7), st.sampled_from([0.0, 1e6])),
        st.dictionaries(st.integers(0, links - 1), weights, max_size=links),
        st.integers(0, 5000),
    )
    flows = draw(st.lists(flow, min_size=1, max_size=12))
    release = draw(st.lists(st.integers(0, 10**6), min_size=len(flows), max_size=len(flows)))
    before = [
        draw(st.sets(st.integers(0, i - 1), max_size=2)) if i else set() for i in range(len(flows))
    ]
    return Messages(
        FlowTable.of(flows, np.array(capacity)),
        np.concatenate([[0], np.cumsum([len(b) for b in before])]).astype(np.int64),
        np.array([s for b in before for s in sorted(b)], np.int32),
        np.array(release, np.int64),
    )


@settings(deadline=None, max_examples=150)
@given(random_messages())
def test_native_equals_plain_python_on_random_messages(made: Messages) -> None:
    found = ends(made)
    assert min(found) >= 0


@settings(deadline=None, max_examples=60)
@given(random_messages())
def test_no_link_carries_more_than_its_capacity(made: Messages) -> None:
    course, table = simulate(made), made.table
    owner = np.repeat(np.arange(len(table)), np.diff(table.link_ptr))
    for link, capacity in enumerate(table.capacity):
        crossing = owner[table.link == link]
        carried = float((table.size_bytes[crossing] * table.weight[table.link == link]).sum())
        if carried:
            took_ns = course.end_ns[crossing].max() - course.start_ns[crossing].min()
            # Each end is rounded up to a whole nanosecond, so time is never short.
            assert carried <= capacity * took_ns * 1e-9 * (1 + 1e-6)


@pytest.mark.parametrize("seed", range(4))
def test_native_equals_plain_python_while_many_flows_share_one_network(seed: int) -> None:
    """Each begin and end changes a few of some thirty rates; all others are carried over."""
    net = Network(
        parse(
            "{hosts: 12, link: {rate: 8Gbps}, "
            "topology: {kind: leaf-spine, hosts_per_leaf: 4, spines: 2, oversubscription: 3}}"
        )
    )
    draw = np.random.default_rng(seed)
    flows = []
    for size in draw.exponential(1e6, 150):
        a, b = draw.choice(12, 2, replace=False).tolist()
        weights = draw.choice([1.0, 1.0, 0.7, 2.3], len(net.path(a, b)))
        flows.append(Flow(size, dict(zip(net.path(a, b), weights.tolist()))))
    release = np.cumsum(draw.exponential(60_000, 150)).astype(int).tolist()
    ends(independent(flows, net.bytes_per_s.tolist(), release))
