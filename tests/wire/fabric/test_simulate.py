"""The packet simulator: native equals its Python twin, and both obey laws that a hand can check."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paceline.wire.errors import WireError
from paceline.wire.fabric import (
    Completions,
    Fabric,
    Flow,
    Policy,
    Routing,
    Tolerance,
    Transport,
    bounded,
    dctcp,
    incast,
    pfabric,
    reno,
    simulate,
)

STAR = Fabric(leaves=1, hosts_per_leaf=9, spines=0, buffer_bytes=64_000)
SMALL = Fabric(leaves=2, hosts_per_leaf=3, spines=2, spine_bits_per_s=100 * 10**9)
HALF = Tolerance(loss_budget=0.1, important=0.5)
LINE_RATE = replace(bounded(), first_rate=1.0)
POLICIES = (reno(200_000), dctcp(30_000, 200_000), pfabric(20, 20_000), bounded(15_000, 30_000))

fabrics = st.builds(
    Fabric,
    leaves=st.integers(2, 3),
    hosts_per_leaf=st.integers(1, 4),
    spines=st.integers(1, 3),
    host_bits_per_s=st.sampled_from([10**9, 10 * 10**9, 100 * 10**9]),
    spine_bits_per_s=st.sampled_from([10**9, 100 * 10**9]),
    hop_ns=st.sampled_from([0, 7, 1_000, 40_000]),
    buffer_bytes=st.integers(1_500, 40_000),
    shared_bytes=st.sampled_from([0, 0, 30_000]),
    loss=st.sampled_from([0.0, 0.0, 0.1]),
)
policies = st.builds(
    Policy,
    transport=st.sampled_from(Transport),
    routing=st.sampled_from(Routing),
    mark_bytes=st.sampled_from([0, 3_000, 9_000]),
    drop_bytes=st.sampled_from([0, 6_000]),
    window_packets=st.integers(1, 20),
    rto_ns=st.sampled_from([50_000, 400_000, 3_000_000]),
    first_rate=st.sampled_from([1.0, 0.3]),
    feedback_packets=st.integers(1, 9),
    seed=st.integers(0, 5),
)


@st.composite
def cases(draw: st.DrawFn) -> tuple[Fabric, list[Flow], Policy]:
    fabric = draw(fabrics)
    flow = st.builds(
        lambda src, shift, size, start, priority, budget, important: Flow(
            src, (src + shift) % fabric.hosts, size, start, priority, budget, important
        ),
        st.integers(0, fabric.hosts - 1),
        st.integers(1, fabric.hosts - 1),
        st.integers(1, 60_000),
        st.integers(0, 30_000),
        st.integers(0, 7),
        st.sampled_from([0.0, 0.1, 0.5]),
        st.sampled_from([0.0, 0.5, 1.0]),
    )
    return fabric, draw(st.lists(flow, min_size=1, max_size=8)), draw(policies)


@pytest.mark.needs("native")
@settings(max_examples=120, deadline=None)
@given(cases())
def test_native_equals_the_twin_event_for_event(case: tuple[Fabric, list[Flow], Policy]) -> None:
    fabric, flows, policy = case
    limit_ns = 30_000_000
    ours = simulate(fabric, flows, policy, until_ns=limit_ns)
    assert ours == simulate(fabric, flows, policy, until_ns=limit_ns, reference=True)


@settings(max_examples=60, deadline=None)
@given(cases())
def test_every_packet_arrives_or_is_dropped_or_is_under_way(
    case: tuple[Fabric, list[Flow], Policy],
) -> None:
    fabric, flows, policy = case
    found = simulate(fabric, flows, policy, until_ns=30_000_000)
    counts = found.counts
    assert counts.sent == counts.arrived + counts.dropped + counts.under_way
    assert counts.under_way >= 0
    assert counts.sent >= found.sent_packets.sum()
    limit = fabric.shared_bytes or fabric.buffer_bytes
    assert found.peak_bytes[fabric.hosts :].max() <= limit


@settings(max_examples=60, deadline=None)
@given(cases())
def test_a_flow_never_misses_more_than_its_budget(case: tuple[Fabric, list[Flow], Policy]) -> None:
    fabric, flows, policy = case
    found = simulate(fabric, flows, policy, until_ns=30_000_000)
    for flow, missing in zip(flows, found.missing_packets.tolist()):
        packets = -(-flow.size_bytes // fabric.payload_bytes)
        allowed = flow.loss_budget if policy.transport is Transport.BOUNDED else 0.0
        assert missing <= allowed * packets


@pytest.mark.parametrize("policy", POLICIES, ids=lambda p: p.transport.name)
def test_one_packet_takes_its_bytes_over_the_rate_and_its_hops(policy: Policy) -> None:
    found = simulate(Fabric(), [Flow(0, 143, 1_460)], policy)
    # NIC and last leaf at 100 Gbit/s, leaf and spine at 400: 120 + 30 + 30 + 120 ns, four hops.
    assert found.times_ns.tolist() == [300 + 4_000]


def test_one_paced_flow_alone_takes_size_over_rate_and_latency() -> None:
    # One spine: over another the probe, which is small, would overtake the last packet.
    found = simulate(Fabric(spines=1), [Flow(0, 143, 1_460 * 1_000)], LINE_RATE)
    assert found.times_ns.tolist() == [1_000 * 120 + 30 + 30 + 120 + 4_000]
    assert found.counts.dropped == found.missing_packets[0] == 0


def test_a_window_above_the_bandwidth_delay_product_fills_the_line() -> None:
    policy = replace(reno(), window_packets=200)
    found = simulate(Fabric(), [Flow(0, 143, 1_460 * 1_000)], policy)
    assert found.times_ns.tolist() == [1_000 * 120 + 30 + 30 + 120 + 4_000]


def test_equal_flows_that_share_a_port_take_as_long_as_their_bytes() -> None:
    flows = incast(8, 1_460 * 500, tolerance=HALF)
    found = simulate(STAR, flows, bounded(20_000, 40_000))
    least_ns = 0.9 * 8 * 500 * 120
    assert least_ns <= found.times_ns.max() <= 1.3 * 8 * 500 * 120


def test_more_time_passes_where_a_timer_must_run_out() -> None:
    slow, fast = (simulate(STAR, incast(8, 14_600), reno(rto)) for rto in (10_000_000, 1_000_000))
    assert slow.counts.dropped > 0
    assert slow.times_ns.max() > 10_000_000 > fast.times_ns.max()


def test_important_packets_outlive_the_others() -> None:
    flows = incast(8, 1_000_000, tolerance=HALF)
    counts = simulate(STAR, flows, bounded(20_000, 25_000)).counts
    assert counts.dropped_unimportant > 0
    assert counts.dropped_important < 0.02 * counts.dropped_unimportant


def test_the_loss_budget_is_not_spent_where_nothing_is_lost() -> None:
    flows = [Flow(0, 5, 1_000_000, loss_budget=0.5, important=0.0)]
    assert simulate(SMALL, flows, bounded()).missing_packets.tolist() == [0]


def test_a_higher_priority_is_served_first() -> None:
    pair = [Flow(1, 0, 1_000_000, priority=7), Flow(2, 0, 1_000_000, priority=0)]
    found = simulate(replace(STAR, buffer_bytes=2_000_000), pair, bounded(0, 0))
    assert found.end_ns[1] < found.end_ns[0]


def test_pfabric_serves_the_smallest_flow_first() -> None:
    flows = [Flow(1, 0, 2_000_000), Flow(2, 0, 20_000, start_ns=50_000)]
    found = simulate(STAR, flows, pfabric(20, 20_000))
    assert found.times_ns[1] < 2 * (20_000 * 8 / 100 + 2_000)


def test_spraying_uses_both_paths_where_a_hash_uses_one() -> None:
    flows = [Flow(0, 3, 1_000_000), Flow(1, 4, 1_000_000)]
    narrow = replace(SMALL, spine_bits_per_s=50 * 10**9)
    one, both = (
        simulate(
            narrow, flows[:1], replace(bounded(0, 0), routing=routing, first_rate=1.0)
        ).times_ns.max()
        for routing in (Routing.ECMP, Routing.SPRAY)
    )
    assert both < 0.6 * one


def test_dctcp_keeps_queues_short() -> None:
    flows = incast(2, 10_000_000)
    deep = replace(STAR, buffer_bytes=1_000_000)
    marked, plain = (simulate(deep, flows, p) for p in (dctcp(60_000), reno()))
    assert marked.counts.marked > 0 == marked.counts.dropped
    assert marked.peak_bytes.max() < 0.5 * plain.peak_bytes.max()
    assert marked.mean_queue_bytes.max() < plain.mean_queue_bytes.max()


def test_the_same_seed_gives_the_same_result_and_another_one_another() -> None:
    def sprayed(seed: int) -> Completions:
        flows = incast(5, 300_000, tolerance=HALF)
        return simulate(SMALL, flows, replace(bounded(5_000, 9_000), seed=seed))

    assert sprayed(1) == sprayed(1)
    assert not np.array_equal(sprayed(1).end_ns, sprayed(2).end_ns)


def test_errors_say_what_is_allowed() -> None:
    with pytest.raises(WireError, match="the fabric has 0 to 8"):
        simulate(STAR, [Flow(0, 9, 1)], reno())
    with pytest.raises(WireError, match="give two hosts"):
        Flow(1, 1, 5)
    with pytest.raises(WireError, match="holds no packet"):
        Fabric(buffer_bytes=1_000)
    with pytest.raises(WireError, match="did not end within"):
        _ = simulate(STAR, incast(8, 10**6), reno(), until_ns=1_000).times_ns
