"""`scale`: chosen ops take a multiple of their time, also once a cluster has priced them."""

from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from paceline.cluster import Cluster, Device, Host, Link
from paceline.graph import Graph
from paceline.predict import predict
from paceline.strategies import StrategyError, parse
from paceline.strategies.scale import Scale

if TYPE_CHECKING:
    from conftest import Drawn

Recording = Callable[..., Graph]
CLUSTER = Cluster(tuple(Host(f"h{i}", Device("core")) for i in range(2)), Link.both_ways(1e9))


def step_ns(graph: Graph, cluster: Cluster | None, *texts: str) -> int:
    return predict(graph, [parse(text) for text in texts], cluster).step_ns


@pytest.mark.parametrize("cluster", [None, CLUSTER])
def test_a_backward_pass_of_half_the_time_shortens_the_step_by_as_much(
    recording: Recording, drawn: "Drawn", cluster: Cluster | None
) -> None:
    graph = recording()
    half = 'scale(select="phase=backward", factor=0.5)'
    saved = (2 * drawn.backward + drawn.copy) // 2
    assert step_ns(graph, cluster) - step_ns(graph, cluster, half) == saved


@pytest.mark.parametrize("cluster", [None, CLUSTER])
def test_communication_of_a_tenth_of_the_time_leaves_a_tenth_of_what_was_waited_for(
    recording: Recording, drawn: "Drawn", cluster: Cluster | None
) -> None:
    graph = recording()
    whole = step_ns(graph, cluster) - drawn.work
    tenth = step_ns(graph, cluster, 'scale(select="kind=collective", factor=0.1)') - drawn.work
    assert whole > 0
    assert tenth == pytest.approx(whole / 10, abs=1)


def test_scaling_survives_changes_that_leave_communication_for_a_cluster_to_price(
    recording: Recording, drawn: "Drawn"
) -> None:
    graph, four = recording(), "workers(count=4)"
    free = 'scale(select="kind=collective", factor=0)'
    assert step_ns(graph, CLUSTER, free, four) == drawn.work
    assert step_ns(graph, CLUSTER, four, free) == drawn.work


def test_factors_multiply(recording: Recording) -> None:
    graph, cluster = recording(), CLUSTER
    half = 'scale(select="kind=collective", factor=0.5)'
    quarter = 'scale(select="kind=collective", factor=0.25)'
    assert step_ns(graph, cluster, half, half) == step_ns(graph, cluster, quarter)


def test_a_selection_of_nothing_is_refused(recording: Recording) -> None:
    with pytest.raises(StrategyError, match="selects none of the graph's 16 ops"):
        parse('scale(select="name=conv", factor=0.5)').transform(recording())


@pytest.mark.parametrize("factor", [-1.0, float("inf")])
def test_factors_that_no_time_can_be_multiplied_by_are_refused(factor: float) -> None:
    with pytest.raises(StrategyError, match="give 0 or more"):
        Scale("all", factor)
