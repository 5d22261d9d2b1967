"""`followed`: broadcasts that another one follows before anyone waits, and their price."""

from dataclasses import replace

import pytest

from paceline.cluster import parse
from paceline.cost import GLOO, Rates, prices
from paceline.cost.followed import followed
from paceline.graph import Axis, Collective, DepKind, Graph, GraphBuilder, LaneKind, OpKind

FOUR = parse("{hosts: {count: 4, device: epyc-2c}, link: {rate: 8Gbps}}")
BARE = replace(GLOO, call_ns=0.0, message_ns=0.0)
MB = 10**6


def broadcasts(*sizes: int, waits: bool = False, collective: Collective = Collective.BROADCAST,
               ranks: int = 4) -> Graph:  # fmt: skip
    """All handed over in a row; where `waits`, each is waited for before the next."""
    b = GraphBuilder()
    group = b.group("data", tuple(range(ranks)), Axis.DATA)
    instances = [b.instance() for _ in sizes]
    for rank in range(ranks):
        main, wire = b.lane(rank), b.lane(rank, "comm", kind=LaneKind.COMM_THREAD)
        for size, instance in zip(sizes, instances):
            handed = b.op("hand over", main, 1, kind=OpKind.HOST)
            call = b.op("call", wire, 0, after=[handed], dep=DepKind.LAUNCH, size_bytes=size,
                        kind=OpKind.COLLECTIVE, collective=collective, group=group,
                        instance=instance)  # fmt: skip
            if waits:
                b.op("wait", main, after=[call], dep=DepKind.WAIT, kind=OpKind.WAIT)
    return b.build()


def milliseconds(graph: Graph, threads: int = 2) -> list[float]:
    """What the first rank's calls take; a megabyte takes one on the link."""
    found = prices(graph, FOUR, Rates(library=replace(BARE, threads=threads))).dur_ns
    calls = (graph.ops.kind == OpKind.COLLECTIVE) & (graph.ops.rank == 0)
    return (found[calls] / 1e6).tolist()


def test_a_broadcast_among_four_alone_takes_three_times_its_link() -> None:
    assert milliseconds(broadcasts(MB)) == [3.0]


def test_what_is_passed_on_hides_behind_a_broadcast_that_follows() -> None:
    assert milliseconds(broadcasts(MB, MB, MB)) == [2.0, 2.0, 3.0]


@pytest.mark.parametrize(
    ("graph", "threads"),
    [
        (broadcasts(MB, MB, waits=True), 2),
        (broadcasts(MB, MB), 1),
    ],
    ids=["each is waited for", "a library of one thread"],
)
def test_a_broadcast_that_ends_before_the_next_hides_nothing(graph: Graph, threads: int) -> None:
    assert milliseconds(graph, threads) == [3.0, 3.0]


def test_a_smaller_one_hides_nothing_and_other_collectives_never_do() -> None:
    assert milliseconds(broadcasts(MB, 1000))[0] == 3.0
    assert not followed(broadcasts(MB, MB, collective=Collective.ALL_GATHER)).any()
