"""The law of graphs: every breach is named with the op that breaks it."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from paceline.errors import GraphError
from paceline.graph import (
    Collective,
    DType,
    Graph,
    GraphBuilder,
    OpKind,
    check,
)
from paceline.graph.cycles import find_cycle, find_cycle_reference


def two_ops(**columns: Any) -> Graph:
    """Two ops on one lane, with columns replaced."""
    b = GraphBuilder()
    lane = b.lane(rank=5, name="main")
    b.op("first", lane, 1)
    b.op("second", lane, 2)
    graph = b.build()
    made = {k: np.array(v, getattr(graph.ops, k).dtype) for k, v in columns.items()}
    return replace(graph, ops=replace(graph.ops, **made))


def collective(*ranks: int, sizes: tuple[int, ...] = (), dtypes: tuple[DType, ...] = ()) -> Graph:
    """One collective of a group of ranks 0 and 1, with members on the given ranks."""
    b = GraphBuilder()
    lanes = {rank: b.lane(rank) for rank in range(3)}
    group, instance = b.group("pair", (0, 1)), b.instance()
    for member, rank in enumerate(ranks):
        b.op(
            "reduce",
            lanes[rank],
            kind=OpKind.COLLECTIVE,
            collective=Collective.ALL_REDUCE,
            group=group,
            instance=instance,
            size_bytes=sizes[member] if sizes else 8,
            dtype=dtypes[member] if dtypes else DType.FLOAT32,
        )
    return b.build()


def test_lawful_graphs_pass_and_come_back() -> None:
    for graph in (two_ops(), collective(0, 1), GraphBuilder().build()):
        assert check(graph) is graph


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"lane": [0, 7]}, "op 1 .* of rank 5 has lane 7; there are 1 lanes"),
        ({"dur_ns": [1, -5]}, r"op 1 'second' \(rank 5, main\) has duration -5 ns"),
        ({"rank": [5, 6]}, "op 1 'second' .* lies on a lane of rank 5"),
        ({"kind": [0, 99]}, "op 1 'second' of rank 5 has kind 99"),
        ({"group": [-1, 0]}, "has group 0; there are 0 groups"),
        ({"name": [0, 9]}, "op 1 .* has name 9; there are 2 names"),
        ({"instance": [-1, 70]}, "has instance 70"),
        ({"instance": [-1, 0]}, "is a COMPUTE in an instance; allowed are COLLECTIVE, SEND, RECV"),
        ({"lane": [0]}, "OpColumns.lane has 1 rows beside 2"),
    ],
)
def test_each_breach_is_named(columns: dict[str, Any], message: str) -> None:
    with pytest.raises(GraphError, match=message):
        check(two_ops(**columns))


def test_floats_are_no_columns() -> None:
    graph = two_ops()
    broken = replace(graph, ops=replace(graph.ops, dur_ns=np.array([1.0, np.nan])))
    with pytest.raises(GraphError, match=r"OpColumns.dur_ns must hold whole numbers"):
        check(broken)


def test_lanes_lie_on_known_devices() -> None:
    graph = two_ops()
    with pytest.raises(GraphError, match="lane 0 'main' of rank 5 is on device 4; known are 1"):
        check(replace(graph, lanes=replace(graph.lanes, device=np.array([4], np.int32))))


def test_a_dependency_on_an_unknown_op_is_named() -> None:
    b = GraphBuilder()
    lane = b.lane()
    b.op("b", lane, after=[b.op("a", lane)])
    graph = b.build()
    with pytest.raises(GraphError, match=r"op 1 'b' .* waits for op 12, which is not among 2"):
        check(replace(graph, deps=replace(graph.deps, src=np.array([12], np.int32))))


@pytest.mark.parametrize(
    ("graph", "message"),
    [
        (collective(0), r"'reduce' \(instance 0, group 'pair'\) is missing on ranks \[1\]"),
        (collective(0, 1, 2), r"on ranks \[2\] outside its group"),
        (collective(0, 1, 1), r"more than once on ranks \[1\]"),
        (collective(0, 1, sizes=(8, 16)), "differ in size_bytes: 8 at op 0 .*, 16 at op 1"),
        (
            collective(0, 1, dtypes=(DType.FLOAT32, DType.BFLOAT16)),
            "differ in dtype: FLOAT32 at op 0 .*, BFLOAT16 at op 1",
        ),
    ],
)
def test_collectives_are_on_every_member_once_and_alike(graph: Graph, message: str) -> None:
    with pytest.raises(GraphError, match=message):
        check(graph)


def test_a_message_has_two_ends() -> None:
    b = GraphBuilder()
    b.op("send", b.lane(), kind=OpKind.SEND, instance=b.instance())
    with pytest.raises(GraphError, match=r"op 0 'send' .* needs one SEND and one RECV"):
        check(b.build())


def test_drains_name_other_lanes_that_exist() -> None:
    for lane, message in ((0, "drains its own lane"), (9, "drains a lane that is not there")):
        b = GraphBuilder()
        op = b.op("sync", b.lane(), kind=OpKind.WAIT)
        b.drain(op, lane)
        with pytest.raises(GraphError, match=f"op 0 'sync' .* {message}"):
            check(b.build())


def test_a_cycle_through_a_collective_and_lane_order_is_printed_by_name() -> None:
    b = GraphBuilder()
    lanes = [b.lane(rank) for rank in range(2)]
    group, instance = b.group("all", range(2)), b.instance()
    late = b.op("late", lanes[0])
    members = [
        b.op("reduce", lane, kind=OpKind.COLLECTIVE, group=group, instance=instance)
        for lane in lanes
    ]
    after = b.op("after", lanes[1])
    b.link(after, late)  # late -> reduce (by lane 0) = reduce on lane 1 -> after (by lane) -> late
    graph = b.build()
    with pytest.raises(GraphError, match=r"'late'.*'reduce'.*'after'|'after'.*'late'.*'reduce'"):
        check(graph)
    assert {late, after} < set(map(int, find_cycle(graph)))
    assert {late, after} < set(find_cycle_reference(graph)) <= {late, after, *members}


def test_both_searches_agree_on_whether_there_is_a_cycle() -> None:
    random, cycles = np.random.default_rng(3), 0
    for _ in range(200):
        b = GraphBuilder()
        lanes = [b.lane() for _ in range(3)]
        ops = [b.op(str(i), lanes[random.integers(3)]) for i in range(8)]
        for _ in range(3):
            src, op = random.choice(ops, 2, replace=False).tolist()
            b.link(src, op)
        graph = b.build()
        assert (len(find_cycle(graph)) > 0) == (len(find_cycle_reference(graph)) > 0)
        cycles += len(find_cycle(graph)) > 0
    assert 20 < cycles < 180


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (float("nan"), "dur_ns of row 0 is nan, which is not a finite number"),
        (0.5, "not a whole number"),
        (2**63, "dur_ns .* does not fit|no number of at most 64 bits"),
        (2**70, "no number of at most 64 bits"),
        ("5", "no number"),
    ],
)
def test_numbers_are_checked_where_they_become_columns(value: Any, message: str) -> None:
    b = GraphBuilder()
    b.op("a", b.lane(), value)
    with pytest.raises(GraphError, match=message):
        b.build()
