"""Collectives by hand: times on equal links follow the textbook, bytes land where they should."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paceline.cluster import ClusterError, Network, parse
from paceline.cost import CostError
from paceline.cost.collectives import (
    ALGORITHMS,
    GLOO,
    NCCL,
    Call,
    Library,
    choose,
    closed_ns,
    link_bytes,
)
from paceline.cost.collectives.gloo import Gloo
from paceline.graph import Collective

BARE = Library("bare")
SIZE = 8_000_000  # 8 ms over a link of 8 Gbit/s


def star(hosts: int, rate: str = "8Gbps", latency: str = "0us") -> Network:
    return Network(parse(f"{{hosts: {hosts}, link: {{rate: {rate}, latency: {latency}}}}}"))


def milliseconds(name: str, how: Collective, n: int, size: int = SIZE) -> float:
    call = Call(how, size, tuple(range(n)))
    return closed_ns(ALGORITHMS[name], call, star(n), range(n), BARE) / 1e6


@pytest.mark.parametrize(
    ("name", "how", "expected_ms"),
    [
        ("ring", Collective.ALL_REDUCE, 14.0),  # 2 (n-1)/n S/B
        ("ring", Collective.REDUCE_SCATTER, 7.0),
        ("ring", Collective.ALL_GATHER, 7.0),
        ("halving-doubling", Collective.ALL_REDUCE, 14.0),
        ("all-to-all", Collective.ALL_TO_ALL, 7.0),
        ("parameter-server", Collective.ALL_REDUCE, 14.0),
        ("gloo", Collective.ALL_REDUCE, 14.0),
        ("gloo", Collective.REDUCE_SCATTER, 14.0),  # executed as an all-reduce
        ("gloo", Collective.ALL_GATHER, 7.0),
        ("gloo", Collective.BROADCAST, 48.0),  # the root sends three at once, then two, one more
        ("gloo", Collective.BARRIER, 0.0),
    ],
)
def test_eight_members_on_equal_links_take_the_textbook_time(
    name: str, how: Collective, expected_ms: float
) -> None:
    assert milliseconds(name, how, 8) == pytest.approx(expected_ms)


def test_latency_is_paid_once_a_round() -> None:
    net = star(8, latency="5us")
    call = Call(Collective.ALL_REDUCE, 0, tuple(range(8)))
    took = {
        n: closed_ns(ALGORITHMS[n], call, net, range(8), BARE) for n in ("ring", "halving-doubling")
    }
    assert took == {"ring": 14 * 10_000, "halving-doubling": 6 * 10_000}


def test_a_chain_of_chunks_hides_all_but_one_of_its_links() -> None:
    took = milliseconds("chain", Collective.BROADCAST, 4, 8 * 2**20)
    assert took == pytest.approx((4 - 2 + 8) * 2**20 / 1e6)


def test_one_parameter_server_is_a_bottleneck_that_sharding_removes() -> None:
    call = Call(Collective.PUSH, SIZE, tuple(range(4)))
    one = ALGORITHMS["parameter-server"].__class__(servers=1)
    net = star(4)
    alone = closed_ns(one, call, net, range(4), BARE)
    sharded = closed_ns(ALGORITHMS["parameter-server"], call, net, range(4), BARE)
    assert alone == pytest.approx(3 * 8e6)
    assert sharded == pytest.approx(3 / 4 * 8e6)


def test_a_hierarchy_spares_the_slow_links() -> None:
    cluster = parse("{hosts: {count: 2, devices: 4, fabric: {rate: 800Gbps}}, link: {rate: 8Gbps}}")
    net, workers = Network(cluster), range(8)
    call = Call(Collective.ALL_REDUCE, SIZE, (0, 0, 0, 0, 1, 1, 1, 1))
    crossing = [i for i, link in enumerate(net.links) if "switch" in link.name]
    loads = {
        n: link_bytes(ALGORITHMS[n], call, net, workers)[crossing] for n in ("ring", "hierarchical")
    }
    assert loads["ring"].max() == pytest.approx(2 * 7 / 8 * SIZE)
    assert loads["hierarchical"].max() == pytest.approx(SIZE)
    with pytest.raises(ClusterError, match="equally many members"):
        ALGORITHMS["hierarchical"].rounds(Call(Collective.ALL_REDUCE, SIZE, (0, 0, 1)))


def test_several_rings_use_all_nics_of_a_host() -> None:
    cluster = parse(
        "{hosts: {count: 2, devices: 4, nics: 4, fabric: {rate: 8000Gbps}}, link: {rate: 8Gbps}}"
    )
    net = Network(cluster)
    call = Call(Collective.ALL_REDUCE, SIZE, (0, 0, 0, 0, 1, 1, 1, 1))
    took = {n: closed_ns(ALGORITHMS[n], call, net, range(8), BARE) for n in ("ring", "multi-ring")}
    assert took["ring"] == pytest.approx(4 * took["multi-ring"], rel=0.01)


def test_gloo_reduce_passes_on_more_segments_than_it_needs() -> None:
    call = Call(Collective.REDUCE, SIZE, (0, 1))
    load = link_bytes(ALGORITHMS["gloo"], call, star(2), range(2))
    needed = SIZE / 2 + SIZE / 2  # the ring's half, and the other's chunk to the root
    assert load.max() > 1.2 * needed


def test_neighbouring_groups_share_their_hosts_links() -> None:
    cluster = parse("{hosts: {count: 2, devices: 4, fabric: nvlink-3}, link: {rate: 8Gbps}}")
    net = Network(cluster)
    call = Call(Collective.ALL_REDUCE, SIZE, (0, 1))
    alone = closed_ns(ALGORITHMS["ring"], call, net, (0, 4), BARE)
    crowded = closed_ns(ALGORITHMS["ring"], call, net, (0, 4), BARE, shifts=(0, 1, 2, 3))
    assert crowded == pytest.approx(4 * alone)


def test_a_library_chooses_by_call_and_can_be_overruled() -> None:
    far = Call(Collective.ALL_REDUCE, 1000, (0, 1))
    assert choose(GLOO, far).name == "gloo"
    assert choose(NCCL, far).name == "double-tree"
    assert choose(NCCL, Call(Collective.ALL_REDUCE, 10**9, (0, 1))).name == "multi-ring"
    assert choose(GLOO.using(all_reduce="halving-doubling"), far).name == "halving-doubling"
    with pytest.raises(CostError, match="does not do ALL_REDUCE"):
        choose(GLOO.using(all_reduce="chain"), far)
    with pytest.raises(CostError, match="known: ring"):
        choose(GLOO.using(all_reduce="telepathy"), far)
    with pytest.raises(CostError, match="no algorithm for ALL_REDUCE"):
        choose(Library("empty"), far)


def test_nccl_takes_a_tree_below_256_kib_and_between_hosts_only() -> None:
    limit = 256 * 1024
    assert choose(NCCL, Call(Collective.ALL_REDUCE, limit - 1, (0, 1))).name == "double-tree"
    assert choose(NCCL, Call(Collective.ALL_REDUCE, limit, (0, 1))).name == "multi-ring"
    assert choose(NCCL, Call(Collective.ALL_REDUCE, 1000, (0, 0))).name == "multi-ring"
    assert choose(NCCL, Call(Collective.BROADCAST, 1000, (0, 1))).name == "chain"


GATHERING = sorted(n for n, a in ALGORITHMS.items() if Collective.ALL_GATHER in a.serves)


@pytest.mark.parametrize("name", GATHERING)
def test_adding_up_takes_time_where_something_is_reduced_and_only_there(name: str) -> None:
    adding = Library("adding", reduce_bytes_per_s=1e9)
    took = {}
    for how in (Collective.ALL_GATHER, Collective.ALL_REDUCE):
        call = Call(how, SIZE, (0, 1, 2, 3))
        free, paid = (
            closed_ns(ALGORITHMS[name], call, star(4), range(4), each) for each in (BARE, adding)
        )
        took[how] = paid - free
    assert took[Collective.ALL_GATHER] == 0
    assert took[Collective.ALL_REDUCE] == pytest.approx(SIZE * 3 / 4)  # three quarters at 1 ns


REDUCING = sorted(n for n, a in ALGORITHMS.items() if Collective.ALL_REDUCE in a.serves)


@settings(deadline=None, max_examples=60)
@given(st.sampled_from(REDUCING), st.integers(2, 9), st.integers(1, 10**8))
def test_no_all_reduce_beats_the_bound_on_bytes_a_link(name: str, n: int, size: int) -> None:
    call = Call(Collective.ALL_REDUCE, size, tuple(range(n)))
    load = link_bytes(ALGORITHMS[name], call, star(n), range(n))
    assert load.max() >= 2 * (n - 1) / n * size * (1 - 1e-9)


@settings(deadline=None, max_examples=60)
@given(st.sampled_from(sorted(ALGORITHMS)), st.integers(2, 9), st.integers(1, 10**8), st.data())
def test_a_slower_link_never_shortens_a_collective(
    name: str, n: int, size: int, data: st.DataObject
) -> None:
    how = data.draw(st.sampled_from(sorted(ALGORITHMS[name].serves)))
    call = Call(how, size, tuple(range(n)))
    took = [
        closed_ns(ALGORITHMS[name], call, star(n, rate), range(n), BARE)
        for rate in ("100Gbps", "10Gbps", "1Gbps")
    ]
    assert took == sorted(took)


def symbolic_all_reduce(name: str, n: int) -> np.ndarray:
    """Who has heard from whom, if members hand on all that they know when they send."""
    known = np.eye(n, dtype=bool)
    for step in ALGORITHMS[name].rounds(Call(Collective.ALL_REDUCE, SIZE, tuple(range(n)))):
        for _ in range(step.repeat):
            before = known.copy()
            for s, d in zip(step.src, step.dst):
                known[d] |= before[s]
    return known


@pytest.mark.parametrize("name", REDUCING)
@pytest.mark.parametrize("n", [2, 3, 4, 7, 8, 13])
def test_after_an_all_reduce_everyone_has_heard_from_everyone(name: str, n: int) -> None:
    assert symbolic_all_reduce(name, n).all()


@pytest.mark.parametrize(
    ("name", "how", "size", "expected_ms"),
    [
        ("gloo", Collective.ALL_REDUCE, SIZE, 28.0),  # 28 rounds of half a millisecond without it
        ("gloo", Collective.ALL_REDUCE, 8 * SIZE, 28 * 4.0),  # longer rounds than a stall
        ("gloo", Collective.BARRIER, 0, 0.0),  # holds no bytes
        ("ring", Collective.ALL_REDUCE, SIZE, 14.0),  # another library's
    ],
)
def test_where_gloo_stalls_a_round_takes_that_long_at_least(
    name: str, how: Collective, size: int, expected_ms: float
) -> None:
    call, stalled = Call(how, size, tuple(range(8))), Library("stalled", stall_ns=1e6)
    found = closed_ns(ALGORITHMS[name], call, star(8), range(8), stalled) / 1e6
    assert found == pytest.approx(expected_ms)


def test_between_two_members_gloos_all_gather_takes_half_a_chunk_longer() -> None:
    """One connection carries both directions: a half waits behind the other side's first half."""
    two, three = (
        sum(step.repeat * step.size_bytes[0] for step in Gloo().rounds(call))
        for call in (
            Call(Collective.ALL_GATHER, 4_000, (0, 1)),
            Call(Collective.ALL_GATHER, 6_000, (0, 1, 2)),
        )
    )
    assert (two, three) == (1.5 * 2_000, 2 * 2_000)
