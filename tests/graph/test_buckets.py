"""What a bucket holds, as a graph's links say it or as was recorded of DDP."""

from dataclasses import replace

import numpy as np
import pytest

from paceline.cluster import Cluster, Device, Host, Link
from paceline.errors import GraphError
from paceline.graph import (
    Axis,
    Collective,
    DepKind,
    DeviceKind,
    DType,
    Facts,
    Graph,
    GraphBuilder,
    LaneKind,
    OpKind,
    Parameter,
    Phase,
    check,
)
from paceline.graph.buckets import Needs, buckets_of
from paceline.graph.gradients import reducing
from paceline.graph.links import Links
from paceline.strategies.adaptive_topk import AdaptiveTopK, shares_on

SIZES = {"b": (10,), "w": (20, 10), "v": (30, 10)}


def two_buckets(*, told: bool = True, named: bool = True) -> Graph:
    """Gradients of b and w in one bucket, of v in another. The op behind the one whose link leads
    into a bucket says which gradient is ready, as in a recording."""
    parameters = tuple(Parameter(n, 4 * int(np.prod(s)), s) for n, s in SIZES.items())
    held = (("b", "w"), ("v",))
    b = GraphBuilder(facts=Facts(2, parameters, held if named else ()))
    group, instances = b.group("0", range(2), Axis.DATA), [b.instance() for _ in held]
    size_of = {p.name: p.size_bytes for p in parameters}
    for rank in range(2):
        main = b.lane(rank, "main")
        gloo = b.lane(rank, "gloo", kind=LaneKind.COMM_THREAD)
        for names, instance in zip(held, instances):
            ready = []
            for name in names:
                ready.append(b.op("mm", main, 9, phase=Phase.BACKWARD))
                b.op("ready", main, kind=OpKind.HOST, phase=Phase.BACKWARD,
                     tensor=name if told else "")  # fmt: skip
            sent = b.op("all_reduce", gloo, 9, kind=OpKind.COLLECTIVE, group=group,
                        phase=Phase.COMMUNICATION, instance=instance, dtype=DType.FLOAT32,
                        collective=Collective.ALL_REDUCE,
                        size_bytes=sum(size_of[name] for name in names))  # fmt: skip
            for op in ready:
                b.link(op, sent, DepKind.GRADIENT)
            b.op("wait", main, after=[sent], dep=DepKind.WAIT, kind=OpKind.WAIT)
    return check(b.build())


def found(graph: Graph, needs: Needs) -> list[tuple[tuple[int, ...], ...]]:
    links = Links.of(graph)
    made = buckets_of(graph, links, reducing(graph, links), needs)
    assert [bucket.index for bucket in made] == [0, 1, 0, 1]
    return [bucket.shapes for bucket in made[:2]]


@pytest.mark.parametrize(("told", "named"), [(True, True), (True, False), (False, True)])
def test_links_or_recorded_buckets_say_what_a_bucket_holds(told: bool, named: bool) -> None:
    graph = two_buckets(told=told, named=named)
    assert found(graph, Needs.COUNT) == [((210,),), ((300,),)]
    assert found(graph, Needs.PARTS) == [((10,), (200,)), ((300,),)]
    assert found(graph, Needs.SHAPES) == [((10,), (20, 10)), ((30, 10),)]


def test_a_bucket_that_nothing_tells_of_is_refused() -> None:
    with pytest.raises(GraphError, match="which parameters make up a bucket of 840 bytes"):
        found(two_buckets(told=False, named=False), Needs.PARTS)


def test_an_older_recording_without_shapes_is_refused_where_they_matter() -> None:
    graph = two_buckets()
    without = tuple(replace(p, shape=()) for p in graph.facts.parameters)
    older = replace(graph, facts=replace(graph.facts, parameters=without))
    assert found(older, Needs.PARTS) == [((10,), (200,)), ((300,),)]
    with pytest.raises(GraphError, match="Record the job again"):
        found(older, Needs.SHAPES)


def test_shares_follow_bytes_where_links_are_alike_and_prices_on_a_cluster() -> None:
    graph = two_buckets()
    assert list(AdaptiveTopK.choices(graph)) == [AdaptiveTopK(ratios=(0.014286, 0.01))]
    hosts = tuple(Host(name, Device("cpu", DeviceKind.CPU)) for name in "ab")
    slow = shares_on(graph, Cluster(hosts, Link.both_ways(1e3)), 0.02)
    fast = shares_on(graph, Cluster(hosts, Link.both_ways(1e12)), 0.02)
    assert slow.ratios == pytest.approx((0.02 * 300 / 210, 0.02), rel=0.01)
    assert fast.ratios == pytest.approx((0.02, 0.02), rel=0.01)  # calls alone take time
