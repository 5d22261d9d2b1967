"""`opposite`: messages handed over together with one the other way, and their price."""

from dataclasses import replace

import pytest

from paceline.cluster import parse
from paceline.cost import GLOO, Rates, prices
from paceline.cost.opposite import opposite
from paceline.graph import NONE, Axis, DepKind, Graph, GraphBuilder, LaneKind, OpKind

PAIR = parse("{hosts: {count: 2, device: epyc-2c}, link: {rate: 8Gbps}}")
BARE = replace(GLOO, call_ns=0.0, message_ns=0.0)


def stages(first: tuple[OpKind, OpKind], second: tuple[OpKind, OpKind], *, waits: bool) -> Graph:
    """Two stages that each hand over two messages; where `waits`, they wait in between."""
    b = GraphBuilder()
    group = b.group("stages", (0, 1), Axis.PIPELINE)
    there, back = b.instance(), b.instance()
    for rank, kinds in enumerate((first, second)):
        main = b.lane(rank)
        for number, kind in enumerate(kinds):
            lane = b.lane(rank, f"comm {number}", kind=LaneKind.COMM_THREAD)
            instance = there if (kind is OpKind.SEND) == (rank == 0) else back
            handed = b.op("hand over", main, 1, kind=OpKind.HOST)
            message = b.op("message", lane, 0, after=[handed], dep=DepKind.LAUNCH, kind=kind,
                           size_bytes=10**6, group=group, instance=instance)  # fmt: skip
            if waits:
                b.op("wait", main, after=[message], dep=DepKind.WAIT, kind=OpKind.WAIT)
    return b.build()


SENDS_FIRST = (OpKind.SEND, OpKind.RECV)
ASKS_FIRST = (OpKind.RECV, OpKind.SEND)


def test_messages_that_both_send_before_they_ask_follow_one_another() -> None:
    graph = stages(SENDS_FIRST, SENDS_FIRST, waits=False)
    assert opposite(graph).tolist() == [NONE, 3, NONE, 1, NONE, 7, NONE, 5]
    found = prices(graph, PAIR, Rates(library=BARE)).dur_ns
    assert found[graph.ops.kind == OpKind.SEND].tolist() == [2_000_000, 2_000_000]


@pytest.mark.parametrize(
    ("first", "second", "waits"),
    [(SENDS_FIRST, ASKS_FIRST, False), (SENDS_FIRST, SENDS_FIRST, True)],
    ids=["one asks first", "both wait in between"],
)
def test_a_word_that_goes_ahead_lets_both_travel_at_once(
    first: tuple[OpKind, OpKind], second: tuple[OpKind, OpKind], waits: bool
) -> None:
    graph = stages(first, second, waits=waits)
    assert (opposite(graph) == NONE).all()
    found = prices(graph, PAIR, Rates(library=BARE)).dur_ns
    assert found[graph.ops.kind == OpKind.SEND].tolist() == [1_000_000, 1_000_000]


def test_a_library_with_a_connection_each_way_is_not_bound_by_it() -> None:
    graph = stages(SENDS_FIRST, SENDS_FIRST, waits=False)
    found = prices(graph, PAIR, Rates(library=replace(BARE, one_way=False))).dur_ns
    assert found[graph.ops.kind == OpKind.SEND].tolist() == [1_000_000, 1_000_000]
