"""Machines that are far apart: neighbours stay together, and little passes slow links."""

from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paceline.cluster import load
from paceline.cluster.machine import Machine
from paceline.place.distant import (
    Rates,
    Search,
    best_cuts,
    neighbourhoods,
    orders,
    plan_distant,
    priced_in_lab,
    reordered,
)
from paceline.place.pipeline import LayerCost, PipelineProfile, PlanError

MBIT = 1e6 / 8
TWO_SITES = load(Path(__file__).parents[3] / "examples" / "two_sites.yaml")


def layers(*inputs: int, ns: int = 1_000_000) -> tuple[LayerCost, ...]:
    return tuple(
        LayerCost(f"layer {n}", ns, 2 * ns, input_bytes=size) for n, size in enumerate(inputs)
    )


def test_a_path_is_as_fast_as_its_slowest_link() -> None:
    rates = Rates.of(TWO_SITES)
    assert rates.bytes_per_s[0, 2] == 1000 * MBIT
    assert rates.bytes_per_s[1, 3] == 100 * MBIT
    assert rates.bytes_per_s[0, 1] == 8 * MBIT
    assert rates.transfer_ns(0, 0, 1e9) == 0
    assert rates.transfer_ns(0, 1, 8 * MBIT) == pytest.approx(1e9)


def test_each_site_is_a_neighbourhood_and_orders_keep_it_together() -> None:
    rates = Rates.of(TWO_SITES)
    assert sorted(map(sorted, neighbourhoods(rates))) == [[0, 2], [1, 3]]
    found = list(orders(rates))
    assert len(found) == len(set(found)) == 8
    assert all({*order[:2]} in ({0, 2}, {1, 3}) for order in found)


def test_machines_alike_are_one_neighbourhood() -> None:
    rate = np.full((3, 3), 100.0)
    np.fill_diagonal(rate, np.inf)
    rates = Rates(rate, np.zeros((3, 3), np.int64))
    assert neighbourhoods(rates) == ((0, 1, 2),)
    assert len(list(orders(rates))) == 6


def test_the_slow_link_is_crossed_once_where_the_least_passes() -> None:
    profile = PipelineProfile(
        {4: layers(100, 9000, 9000, 9000, 400_000, 1000, 9000, 9000, ns=10_000)}
    )
    best = plan_distant(profile, Rates.of(TWO_SITES), Search(16, (1.0,) * 4))[0]
    crossings = [{a, b} not in ({0, 2}, {1, 3}) for a, b in zip(best.order, best.order[1:])]
    assert crossings == [False, True, False]
    assert best.cuts[2] == 5
    assert best.microbatches == 4


def test_only_what_the_pipeline_waits_for_is_compressed() -> None:
    profile = PipelineProfile({4: layers(*[400_000] * 8)})
    best = plan_distant(profile, Rates.of(TWO_SITES), Search(16, (1.0,) * 4, 5.0))[0]
    assert best.shares == (1.0, 0.3375, 1.0)  # 16 bits and a fifth of the bytes, less the mask
    plain = plan_distant(profile, Rates.of(TWO_SITES), Search(16, (1.0,) * 4))[0]
    assert plain.shares == (1.0, 1.0, 1.0)
    assert best.step_ns < plain.step_ns / 3


def test_a_slow_worker_gets_fewer_layers() -> None:
    rate = np.full((2, 2), 1e12)
    rates = Rates(rate, np.zeros((2, 2), np.int64))
    search = Search(4, (1.0, 0.5))
    assert best_cuts(layers(*[8] * 6), (0, 1), rates, search) == (0, 4, 6)
    assert best_cuts(layers(*[8] * 6), (1, 0), rates, search) == (0, 2, 6)


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.tuples(st.integers(1, 50), st.integers(4, 4000)), min_size=3, max_size=7),
    st.lists(st.floats(0.2, 2.0), min_size=3, max_size=3),
)
def test_no_other_cut_has_a_faster_slowest_part(
    drawn: list[tuple[int, int]], speeds: list[float]
) -> None:
    made = tuple(LayerCost("x", ns, ns, input_bytes=size) for ns, size in drawn)
    rates = Rates(np.full((3, 3), 1e9 / 20), np.zeros((3, 3), np.int64))
    search = Search(1, tuple(speeds))

    def slowest(cuts: tuple[int, ...]) -> float:
        work = [
            sum(layer.compute_ns for layer in made[a:b]) / speed
            for a, b, speed in zip(cuts, cuts[1:], speeds)
        ]
        return max([*work, *(20.0 * made[cut].input_bytes for cut in cuts[1:-1])])

    found = best_cuts(made, (0, 1, 2), rates, search)
    every = [(0, *pair, len(made)) for pair in combinations(range(1, len(made)), 2)]
    assert slowest(found) == pytest.approx(min(map(slowest, every)))


def test_a_reordered_cluster_has_the_same_paths() -> None:
    cluster = TWO_SITES
    order = (2, 0, 3, 1)
    before, after = Rates.of(cluster), Rates.of(reordered(cluster, order))
    for one, old in enumerate(order):
        for other, also in enumerate(order):
            assert after.bytes_per_s[one, other] == before.bytes_per_s[old, also]
    with pytest.raises(PlanError, match="give each host one worker"):
        reordered(cluster, (0, 1))


def test_the_replayed_price_is_that_of_the_slow_link_and_falls_with_what_passes() -> None:
    cluster, machine = TWO_SITES, Machine(4.0, cpu_ns_per_byte=0.001, message_ns=0.0)
    profile = PipelineProfile({4: layers(*[400_000] * 4)})
    steps = []
    for compress in (0.0, 5.0):
        found = plan_distant(profile, Rates.of(cluster), Search(16, (1.0,) * 4, compress))
        best = found[0]
        steps.append(priced_in_lab(best, best.stages(profile), cluster, machine).step_ns)
    assert 4 * 400e6 <= steps[0] <= 4 * 400e6 * 2.2  # four messages of 0.4 s, each way at once
    assert steps[1] < steps[0] / 3


@pytest.mark.parametrize(
    ("search", "said"),
    [
        (Search(16, (1.0,) * 3), "3 speeds for 4 workers"),
        (Search(16, (1.0, 1.0, 1.0, 0.0)), "the least 0"),
        (Search(6, (1.0,) * 4), "divides a batch of 6"),
        (Search(16, (1.0,) * 4, -1.0), "give 0"),
    ],
)
def test_what_cannot_be_planned_is_named(search: Search, said: str) -> None:
    with pytest.raises(PlanError, match=said):
        plan_distant(PipelineProfile({4: layers(*[8] * 4)}), Rates.of(TWO_SITES), search)
    with pytest.raises(PlanError, match="2 layers do not fill 4 workers"):
        plan_distant(PipelineProfile({4: layers(8, 8)}), Rates.of(TWO_SITES), Search(4, (1.0,) * 4))
