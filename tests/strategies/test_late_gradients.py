"""`late_gradients`: which ops make a weight's gradient, where they go, and what is refused."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from paceline.cluster import Cluster, Device, Host, Link
from paceline.errors import GraphError
from paceline.graph import (
    Axis,
    Collective,
    DepKind,
    DType,
    Facts,
    Graph,
    GraphBuilder,
    LaneKind,
    MemoryCategory,
    OpKind,
    Parameter,
    Phase,
    Role,
    check,
)
from paceline.graph.links import Links
from paceline.graph.synthetic import Parallel, TrainingJob, training
from paceline.graph.work import Matrix, Recorded, matrix
from paceline.predict import predict
from paceline.strategies import Plan, StrategyError, parse, transformed

FRONT, BACK = (4, 8), (6, 4)
"""Shapes of two linear layers' weights."""
ROWS = 16
Told = Sequence[tuple[str, str, int, str]]
"""Ops of a backward pass: name, layer, length, the gradient that is then ready."""

ADDMM: Told = (
    ("AddmmBackward0", "back", 1, ""),
    ("aten::mm", "back", 50, ""),  # of the input
    ("AddmmBackward0", "back", 1, ""),
    ("aten::mm", "back", 7, ""),  # of the weight
    ("aten::resolve_conj", "back", 1, ""),
    ("aten::mm", "back", 60, ""),
    ("AddmmBackward0", "back", 1, ""),
    ("aten::mul", "", 5, "back.weight"),
    ("ReluBackward0", "relu", 20, ""),
    ("AddmmBackward0", "front", 1, ""),
    ("aten::mm", "front", 70, ""),  # of the weight; the batch has no gradient
    ("AddmmBackward0", "front", 1, ""),
    ("aten::mul", "", 5, "front.weight"),
    ("EmbeddingBackward0", "embed", 30, "embed.weight"),
)


def weight(name: str, shape: tuple[int, ...], role: Role = Role.LINEAR_WEIGHT) -> Parameter:
    size = 4 * int(np.prod(shape))
    return Parameter(f"{name}.weight", size, shape, name, role)


WEIGHTS = (weight("embed", (100, 8), Role.OTHER), weight("front", FRONT), weight("back", BACK))


def job(backward: Told, kept: dict[int, int] | None = None) -> Graph:
    """One step on two ranks, its gradients in one bucket. `kept`: activations that are given back
    behind an op of the backward pass, in bytes."""
    b = GraphBuilder(facts=Facts(world_size=2, parameters=WEIGHTS))
    group, instance = b.group("0", (0, 1), Axis.DATA), b.instance()
    for rank in (0, 1):
        main, gloo = b.lane(rank, "main"), b.lane(rank, "gloo", kind=LaneKind.COMM_THREAD)
        b.op("forward", main, 100, phase=Phase.FORWARD)
        made = [
            b.op(name, main, dur, phase=Phase.BACKWARD, layer=layer, tensor=tensor)
            for name, layer, dur, tensor in backward
        ]  # fmt: skip
        for at, size_bytes in (kept or {}).items():
            b.allocate(made[0] - 1, size_bytes, MemoryCategory.ACTIVATIONS)
            b.allocate(made[at], -size_bytes, MemoryCategory.ACTIVATIONS, at_end=True)
        asked = b.op("c10d", main, kind=OpKind.HOST, phase=Phase.COMMUNICATION)
        sent = b.op(
            "gloo:all_reduce", gloo, 900, after=[asked], dep=DepKind.LAUNCH, group=group,
            kind=OpKind.COLLECTIVE, phase=Phase.COMMUNICATION, instance=instance,
            collective=Collective.ALL_REDUCE, dtype=DType.FLOAT32,
            size_bytes=sum(p.size_bytes for p in WEIGHTS),
        )  # fmt: skip
        for op, (*_, tensor) in zip(made, backward):
            if tensor:
                b.link(op, sent, DepKind.GRADIENT)
        b.op("wait", main, after=[sent], dep=DepKind.WAIT, kind=OpKind.WAIT)
        b.op("copy", main, 40, phase=Phase.BACKWARD)
        b.op("sgd", main, 60, phase=Phase.UPDATE)
    return check(b.build())


def alone() -> Graph:
    """A job of one worker."""
    b = GraphBuilder(facts=Facts(world_size=1, parameters=WEIGHTS))
    main = b.lane(0, "main")
    for name, layer, dur, tensor in ADDMM:
        b.op(name, main, dur, phase=Phase.BACKWARD, layer=layer, tensor=tensor)
    return check(b.build())


def with_works(graph: Graph, dims: dict[int, Matrix]) -> Graph:
    """Ops of the backward pass work on these matrices, on each rank."""
    distinct = list(dict.fromkeys(dims.values()))
    works = tuple(Recorded("aten::mm", matrix(each, DType.FLOAT32)) for each in distinct)
    column = graph.ops.work.copy()
    for rank in (0, 1):
        first = backward_of(graph, rank)[0]
        column[[first + at for at in dims]] = [distinct.index(d) for d in dims.values()]
    return replace(graph, works=works, ops=replace(graph.ops, work=column))


def backward_of(graph: Graph, rank: int = 0) -> list[int]:
    mine = (graph.ops.phase == Phase.BACKWARD) & (graph.ops.rank == rank)
    return np.flatnonzero(mine & (graph.ops.kind == OpKind.COMPUTE)).tolist()


def told(graph: Graph, rank: int = 0) -> list[tuple[str, str, int, str]]:
    ops = (graph[op] for op in backward_of(graph, rank))
    rows = [(op.name, op.layer, op.dur_ns, op.tensor) for op in ops]
    return rows[:-1]  # the copy of the reduced bucket


def test_the_second_product_up_to_the_ready_gradient_moves_behind_all_others() -> None:
    made = check(parse("late_gradients").transform(job(ADDMM)))
    wanted = [*ADDMM[:3], ADDMM[8], ADDMM[9], ADDMM[13], *ADDMM[10:13], *ADDMM[3:8]]
    assert told(made, 0) == told(made, 1) == wanted


def test_layers_behind_the_first_so_many_are_as_ever() -> None:
    made = check(parse("late_gradients(first=1)").transform(job(ADDMM)))
    assert told(made) == [*ADDMM[:10], ADDMM[13], *ADDMM[10:13]]


def test_the_largest_go_first_where_they_are_asked_to() -> None:
    front = replace(WEIGHTS[1], size_bytes=WEIGHTS[2].size_bytes - 4)
    graph = job(ADDMM)
    graph = replace(graph, facts=replace(graph.facts, parameters=(WEIGHTS[0], front, WEIGHTS[2])))
    made = told(parse("late_gradients(order='largest')").transform(graph))
    assert [row[3] for row in made if row[3]] == ["embed.weight", "back.weight", "front.weight"]


def test_where_the_weights_product_comes_first_the_inputs_stays() -> None:
    backward = [ADDMM[0], *ADDMM[3:6], ADDMM[2], ADDMM[1], ADDMM[6], *ADDMM[7:]]
    dims = {1: Matrix(1, 6, 4, ROWS), 3: Matrix(1, 6, 4, ROWS), 5: Matrix(1, ROWS, 4, 6)}
    made = check(parse("late_gradients").transform(with_works(job(backward), dims)))
    late = [*backward[1:4], *backward[6:8]]
    assert told(made)[-5:] == late
    assert told(made)[:3] == [backward[0], *backward[4:6]]


def test_what_a_layer_read_is_held_until_its_gradients_turn() -> None:
    plain = job(ADDMM, {6: 1000})
    made = parse("late_gradients").transform(plain)
    freed = made.memory.op[made.memory.delta_bytes < 0]
    assert [made[int(op)].name for op in freed] == ["AddmmBackward0"] * 2
    last = [backward_of(made, rank)[len(ADDMM) - 2] for rank in (0, 1)]
    assert freed.tolist() == last


def test_what_another_op_reads_behind_it_is_held_for_the_gradient_too() -> None:
    """A ReLU's result, which the layer behind it reads, else goes with the ReLU."""
    result = 4 * ROWS * BACK[1]
    dims = {3: Matrix(1, *BACK, ROWS), 5: Matrix(1, *BACK, ROWS)}
    made = parse("late_gradients").transform(with_works(job(ADDMM, {8: result}), dims))
    freed = made.memory.op[made.memory.delta_bytes == -result]
    assert [made[int(op)].tensor for op in freed] == ["back.weight"] * 2


def test_what_an_op_gave_back_as_it_began_is_held_until_the_gradient_is_made() -> None:
    result = 4 * ROWS * BACK[1]
    dims = {3: Matrix(1, *BACK, ROWS), 5: Matrix(1, *BACK, ROWS)}
    graph = with_works(job(ADDMM, {8: result}), dims)
    begun = replace(graph.memory, at_end=np.zeros_like(graph.memory.at_end))
    made = parse("late_gradients").transform(replace(graph, memory=begun))
    assert made.memory.at_end[made.memory.delta_bytes == -result].tolist() == [True] * 2


@pytest.mark.parametrize("kind", [DepKind.ORDER, DepKind.DATA])
def test_who_only_stood_behind_a_gradient_is_no_reader_of_it(kind: DepKind) -> None:
    graph = job(ADDMM)
    ready, behind = backward_of(graph)[7:9]
    links = Links.of(graph).joined(Links.all_of(np.array([behind]), np.array([ready]), kind))
    linked = replace(graph, deps=links.columns(len(graph)))
    if kind is DepKind.ORDER:
        made = check(parse("late_gradients").transform(linked))
        assert told(made) == told(parse("late_gradients").transform(graph))
    else:
        with pytest.raises(GraphError, match="waits for a weight gradient"):
            parse("late_gradients").transform(linked)


def test_a_layer_that_runs_twice_in_a_step_is_as_ever_and_it_is_said() -> None:
    graph = job([*ADDMM[:7], *ADDMM])
    change = parse("late_gradients")
    assert told(change.transform(graph))[-4:] == [ADDMM[13], *ADDMM[10:13]]
    assert "the weight gradient of back" in "".join(change.rests_on(graph))


@pytest.mark.parametrize(
    ("graph", "said"),
    [
        (job([row for row in ADDMM if row[0] != "aten::mm"]), "shows no product"),
        (training(TrainingJob(parallel=Parallel.TENSOR_DATA, tensor=2)), "share layers or stages"),
        (alone(), "one worker"),
    ],
)
def test_what_cannot_be_held_back_is_refused_with_the_reason(graph: Graph, said: str) -> None:
    with pytest.raises((GraphError, StrategyError), match=said):
        parse("late_gradients").transform(graph)


def test_a_large_front_is_exchanged_beside_the_gradients_that_were_held_back() -> None:
    lan = Cluster(tuple(Host(f"h{i}", Device("core")) for i in range(2)), Link.both_ways(1e9))
    slow = 10_000_000
    front = (Parameter("embed.weight", 4 << 20, (1 << 20,), "embed"), *WEIGHTS[1:])
    long = [(name, layer, dur * slow // 60, tensor) for name, layer, dur, tensor in ADDMM]
    graph = job(long)
    graph = replace(graph, facts=replace(graph.facts, parameters=front))
    plans = ["buckets(size_bytes=1)"], ["late_gradients", "buckets(size_bytes=1)"]
    plain, late = (predict(graph, plan, lan).step_ns for plan in plans)
    assert late < plain


def test_a_backward_pass_that_is_all_hidden_gains_nothing_and_loses_nothing() -> None:
    job_ = TrainingJob(bucket_bytes=1, weight_bytes=4, bias_bytes=4)
    lan = Cluster(tuple(Host(f"h{i}", Device("core")) for i in range(2)), Link.both_ways(1e12))
    plain, late = (predict(training(job_), p, lan).step_ns for p in ([], ["late_gradients"]))
    assert late == pytest.approx(plain, rel=0.02)


def test_another_cluster_and_more_workers_may_follow_or_stand_before() -> None:
    graph = training(TrainingJob())
    orders = ["late_gradients", "workers(count=4)"], ["workers(count=4)", "late_gradients"]
    one, other = (check(transformed(graph, map(parse, texts))) for texts in orders)
    assert one.ops.dur_ns.sum() == other.ops.dur_ns.sum()
    assert len(one) == len(other)


def test_settings_are_worth_trying_where_a_large_gradient_is_ready_last() -> None:
    even = training(TrainingJob())
    front, *others = even.facts.parameters
    large = replace(front, size_bytes=even.facts.parameters[1].size_bytes + 4)
    told = replace(even, facts=replace(even.facts, parameters=(large, *others)))
    kind = type(parse("late_gradients"))
    assert list(kind.choices(even)) == []
    assert list(map(str, kind.choices(told))) == [
        f"late_gradients(first={first}, order='next use')" for first in (3, 2)
    ]


def test_it_stands_before_what_exchanges_gradients() -> None:
    for text in ("buckets(size_bytes=1)", "partition(parts=2)", "priority", "fp16", "zero1"):
        with pytest.raises(StrategyError, match="give late_gradients"):
            Plan((parse(text), parse("late_gradients")))
    with pytest.raises(StrategyError, match="checkpoint"):
        Plan((parse("late_gradients"), parse("checkpoint")))


@pytest.mark.parametrize("wrong", ["first=-1", "order='ready'"])
def test_settings_that_cannot_be_are_refused(wrong: str) -> None:
    with pytest.raises(StrategyError, match="give"):
        parse(f"late_gradients({wrong})")
