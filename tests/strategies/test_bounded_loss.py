"""`bounded_loss`: its bytes are those of a push and a pull, and its bounds are shares."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from paceline.cluster import Cluster, Device, Host, Link
from paceline.graph import Collective, Graph, OpKind, check
from paceline.predict import predict
from paceline.strategies import StrategyError, parse, transformed

Recording = Callable[..., Graph]


def test_each_bucket_is_scattered_and_then_gathered(recording: Recording) -> None:
    made = check(parse("bounded_loss(gradients=0.1)").transform(recording()))
    mine = (made.ops.rank == 0) & (made.ops.kind == OpKind.COLLECTIVE)
    assert made.ops.collective[mine].tolist() == [Collective.PUSH, Collective.PULL]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("bounded_loss(gradients=1.5)", "gradients=1.5"),
        ("bounded_loss(parameters=-0.1)", "parameters=-0.1"),
        ("bounded_loss(important=2.0)", "important=2.0"),
        ("bounded_loss(link_mbit_per_s=0.0)", "more than 0"),
    ],
)
def test_bounds_that_are_no_shares_are_refused(text: str, said: str) -> None:
    with pytest.raises(StrategyError, match=said):
        parse(text)


@pytest.mark.parametrize("other", ["bf16", "parameter_server", "partition(parts=2)"])
def test_gradients_travel_in_one_way_only(other: str) -> None:
    from paceline.strategies.strategy import exclude_each_other

    assert exclude_each_other(type(parse("bounded_loss")), type(parse(other)))


def on(loss: float) -> Cluster:
    link = Link(1e6, 1e6, loss=loss, buffer_bytes=64_000)
    return Cluster(tuple(Host(f"h{n}", Device("core")) for n in range(2)), link)


def test_it_is_predicted_by_packets_so_that_loss_costs_time_and_a_budget_spares_it(
    recording: Recording,
) -> None:
    graph = recording()
    graph = replace(graph, ops=replace(graph.ops, size_bytes=1000 * graph.ops.size_bytes))
    strict, bounded = (
        predict(graph, [f"bounded_loss(gradients={budget}, important=0.0)"], on(0.1)).step_ns
        for budget in (0.0, 0.5)
    )
    without = predict(graph, ["bounded_loss(gradients=0.0)"], on(0.0))
    assert without.step_ns < bounded < strict
    assert any("its packets, simulated" in line for line in without.rests_on)


def test_buckets_may_be_changed_before(recording: Recording) -> None:
    graph = recording()
    check(transformed(graph, [parse("buckets(size_bytes=1)"), parse("bounded_loss")]))
