"""`partition`: parts of an exchange, and how many are best."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paceline.cluster import Cluster, Device, Host, Link
from paceline.cost import GLOO, Rates, prices
from paceline.graph import UNPRICED, Graph, OpKind, check
from paceline.graph.partition import part_sizes
from paceline.graph.synthetic import TrainingJob, training
from paceline.replay import replay
from paceline.strategies import StrategyError, parse, transformed
from paceline.strategies.partition import MOST, PartStage, best_on, best_parts, exchange_ns

Recording = Callable[..., Graph]
STAGES = st.lists(
    st.builds(PartStage, st.floats(1, 1e6), st.floats(0.01, 100)), min_size=1, max_size=4
)


def test_parts_follow_one_another_and_all_are_waited_for(recording: Recording) -> None:
    made = check(parse("partition(parts=3)").transform(recording()))
    talks = np.flatnonzero((made.ops.kind == OpKind.COLLECTIVE) & (made.ops.rank == 0))
    assert made.ops.size_bytes[talks].tolist() == [336, 332, 332]  # of 250 values
    line = replay(made, prices=np.where(made.ops.dur_ns == UNPRICED, 30, made.ops.dur_ns))
    begin = line.start_ns[talks[0]]
    assert line.start_ns[talks].tolist() == [begin, begin + 30, begin + 60]
    waits = np.flatnonzero((made.ops.kind == OpKind.WAIT) & (made.ops.rank == 0))
    assert line.start_ns[waits].tolist() == [begin + 90]


def test_a_part_is_handed_over_by_a_call_of_its_own(recording: Recording) -> None:
    made = parse("partition(parts=4)").transform(recording())
    assert ((made.ops.kind == OpKind.HOST) & (made.ops.rank == 1)).sum() == 4


@settings(deadline=None)
@given(st.integers(1, 50), st.integers(1, 60))
def test_parts_differ_by_one_value_at_most_and_none_is_empty(count: int, parts: int) -> None:
    sizes = part_sizes(count, parts)
    assert sum(sizes) == count
    assert len(sizes) == min(count, parts)
    assert max(sizes) - min(sizes) <= 1
    assert min(sizes) >= 1


@settings(max_examples=200, deadline=None)
@given(st.floats(1, 1e8), STAGES)
def test_no_other_number_of_parts_is_faster_than_the_formulas(
    size_bytes: float, stages: list[PartStage]
) -> None:
    best = best_parts(size_bytes, stages)
    least = min(exchange_ns(size_bytes, stages, parts) for parts in range(1, MOST + 1))
    assert exchange_ns(size_bytes, stages, best) == pytest.approx(least, rel=1e-9)


def test_the_best_number_is_the_root_of_what_others_take_over_what_a_part_costs() -> None:
    link, add = PartStage(part_ns=100, byte_ns=2), PartStage(part_ns=0, byte_ns=1)
    assert best_parts(10_000, [link, add]) == 10  # sqrt(10_000 * 1 / 100)
    assert best_parts(10_000, [link]) == 1
    assert best_parts(10_000, [PartStage(0, 2), add]) == MOST


def test_on_a_cluster_where_members_take_long_to_add_more_parts_are_best() -> None:
    hosts = tuple(Host(f"h{i}", Device("core")) for i in range(2))
    cluster, graph = Cluster(hosts, Link.both_ways(1e10)), training(TrainingJob())
    times = {"call_ns": 40_000, "message_ns": 15_000, "reduce_bytes_per_s": 2e9}
    slow = Rates(library=replace(GLOO, name="slow", source="", **times))
    assert best_on(graph, cluster).parts == 1  # gloo's adding is hidden
    assert best_on(graph, cluster, slow).parts > 1


def test_parts_of_a_packed_payload_hold_all_of_it(recording: Recording) -> None:
    plan = [parse("int8"), parse("partition(parts=3)")]
    whole, cut = (check(transformed(recording(), plan[:n])).ops for n in (1, 2))
    sums = [ops.size_bytes[ops.kind == OpKind.COLLECTIVE].sum() for ops in (whole, cut)]
    assert sums[0] == sums[1]
    assert (cut.kind == OpKind.COLLECTIVE).sum() == 3 * (whole.kind == OpKind.COLLECTIVE).sum()


def test_smaller_parts_bring_no_gain_where_nothing_goes_between_them() -> None:
    graph = training(TrainingJob())
    hosts = tuple(Host(f"h{i}", Device("core")) for i in range(2))
    cluster = Cluster(hosts, Link.both_ways(1e9))

    def step(made: Graph) -> int:
        return replay(made, prices=prices(made, cluster).dur_ns).step_ns

    assert step(parse("partition(parts=8)").transform(graph)) > step(graph)


def test_strategies_that_build_on_others_stand_behind_them(recording: Recording) -> None:
    with pytest.raises(StrategyError, match=r"give buckets.* first"):
        transformed(recording(), [parse("partition(parts=2)"), parse("buckets(size_bytes=9)")])


def test_no_parts_are_refused() -> None:
    with pytest.raises(StrategyError, match="give 1 or more"):
        parse("partition(parts=0)")
