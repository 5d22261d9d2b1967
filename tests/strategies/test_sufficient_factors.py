"""`sufficient_factors`: what is gathered and when, what takes longer, and what is refused."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import prod

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline.cost.collectives.volume import sent_share
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
from paceline.graph.synthetic import Parallel, TrainingJob, training
from paceline.graph.synthetic.training_lanes import MachineKind
from paceline.graph.work import Matrix, Recorded, matrix
from paceline.replay import replay
from paceline.runtime.sufficient_factors import payload_bytes, sends_less
from paceline.strategies import Plan, StrategyError, parse, transformed
from paceline.strategies.sends import sends_of

FRONT, BACK = (4, 8), (6, 4)
"""Shapes of two linear layers' weights; in front of them stands an embedding."""
BACKWARD = (
    ("AddmmBackward0", "back", 1, ""),
    ("aten::mm", "back", 50, ""),  # of the input
    ("AddmmBackward0", "back", 1, ""),
    ("aten::mm", "back", 60, ""),  # of the weight
    ("aten::mul", "", 5, "back.weight"),
    ("aten::mm", "front", 70, ""),  # of the weight; the words have no gradient
    ("aten::mul", "", 5, "front.weight"),
    ("EmbeddingBackward0", "embed", 30, "embed.weight"),
)
HANDED_NS = 4


def weight(name: str, shape: tuple[int, ...], role: Role = Role.LINEAR_WEIGHT) -> Parameter:
    return Parameter(f"{name}.weight", 4 * prod(shape), shape, name, role)


EMBED = weight("embed", (100, 8), Role.OTHER)
LINEAR = (weight("front", FRONT), weight("back", BACK))


def job(
    weights: Sequence[Parameter] = (EMBED, *LINEAR),
    dims: Mapping[int, Matrix] = {},
    dtype: DType = DType.FLOAT32,
) -> Graph:
    """One step on two ranks, its gradients in one bucket. `dims`: what ops of the backward pass
    multiply."""
    names = {p.name for p in weights}
    b = GraphBuilder(facts=Facts(world_size=2, parameters=tuple(weights)))
    group, instance = b.group("0", (0, 1), Axis.DATA), b.instance()
    for rank in (0, 1):
        main, gloo = b.lane(rank, "main"), b.lane(rank, "gloo", kind=LaneKind.COMM_THREAD)
        b.op("forward", main, 100, phase=Phase.FORWARD)
        made = []
        for at, (name, layer, dur, tensor) in enumerate(BACKWARD):
            work = Recorded("aten::mm", matrix(dims[at], dtype)) if at in dims else None
            ready = tensor if tensor in names else ""
            made.append(
                b.op(name, main, dur, phase=Phase.BACKWARD, layer=layer, tensor=ready, work=work)
            )
        b.allocate(made[0], 1000, MemoryCategory.TEMPORARY)
        b.allocate(made[0], -1000, MemoryCategory.TEMPORARY, at_end=True)
        asked = b.op("c10d", main, HANDED_NS, kind=OpKind.HOST, phase=Phase.COMMUNICATION)
        sent = b.op(
            "gloo:all_reduce", gloo, 900, after=[asked], dep=DepKind.LAUNCH, group=group,
            kind=OpKind.COLLECTIVE, phase=Phase.COMMUNICATION, instance=instance,
            collective=Collective.ALL_REDUCE, dtype=DType.FLOAT32,
            size_bytes=sum(p.size_bytes for p in weights),
        )  # fmt: skip
        for op, (*_, tensor) in zip(made, BACKWARD):
            if tensor in names:
                b.link(op, sent, DepKind.GRADIENT)
        b.op("wait", main, after=[sent], dep=DepKind.WAIT, kind=OpKind.WAIT)
        b.op("copy", main, 40, phase=Phase.BACKWARD)
        b.op("sgd", main, 60, phase=Phase.UPDATE)
    return check(b.build())


def under(text: str, graph: Graph) -> Graph:
    return check(parse(text).transform(graph))


def on_thread(graph: Graph, rank: int = 0) -> list[tuple[str, int]]:
    """What the training thread does, and for how long where that is known."""
    threads = graph.lanes.kind[graph.ops.lane] == LaneKind.THREAD
    rows = np.flatnonzero((graph.ops.rank == rank) & threads)
    return [(graph[op].name, graph[op].dur_ns) for op in rows.tolist()]


def talks(graph: Graph, rank: int = 0) -> list[tuple[Collective, int]]:
    rows = np.flatnonzero((graph.ops.kind == OpKind.COLLECTIVE) & (graph.ops.rank == rank))
    return [(Collective(graph.ops.collective[r]), int(graph.ops.size_bytes[r])) for r in rows]


@given(st.tuples(st.integers(1, 99), st.integers(1, 99)), st.integers(1, 99), st.integers(2, 9))
def test_a_layer_is_chosen_where_its_rows_are_fewer_bytes_on_the_wire(
    shape: tuple[int, int], rows: int, members: int
) -> None:
    gathered = members * rows * sum(shape) * sent_share(Collective.ALL_GATHER, members)
    reduced = prod(shape) * sent_share(Collective.ALL_REDUCE, members)
    if gathered != pytest.approx(reduced, rel=1e-9):
        assert sends_less(shape, rows, members) == (gathered < reduced)


HAND_OVER = [("pack factors", -1), ("hand factors over", HANDED_NS)]
PUT_TOGETHER = [("wait for factors", 0), ("put factors together", -1)]
COPIED_NS = round(40 * EMBED.size_bytes / sum(p.size_bytes for p in (EMBED, *LINEAR)))


def test_rows_go_before_the_products_and_the_product_of_all_comes_behind_all_else() -> None:
    made = under("sufficient_factors(rows=1)", job())
    wanted = [
        ("forward", 100),
        ("AddmmBackward0", 1),
        *HAND_OVER,
        ("aten::mm", 50),
        ("AddmmBackward0", 1),
        *HAND_OVER,
        ("EmbeddingBackward0", 30),
        ("c10d", HANDED_NS),
        *PUT_TOGETHER,
        ("aten::mm", 2 * 60),
        ("aten::mul", 0),
        *PUT_TOGETHER,
        ("aten::mm", 2 * 70),
        ("aten::mul", 0),
        ("wait", 0),
        ("wait", COPIED_NS),
        ("sgd", 60),
    ]
    assert on_thread(made, 0) == on_thread(made, 1) == wanted
    back, front = (2 * (8 + 4 * sum(shape)) for shape in (BACK, FRONT))
    assert talks(made) == [
        (Collective.ALL_GATHER, back),
        (Collective.ALL_GATHER, front),
        (Collective.ALL_REDUCE, EMBED.size_bytes),
    ]


def test_the_replayed_step_is_that_worked_out_by_hand() -> None:
    made = under("sufficient_factors(rows=1)", job())
    took = {"pack factors": 2, "put factors together": 3, "gather factors": 100}
    dur = made.ops.dur_ns.copy()
    for op in np.flatnonzero(dur < 0).tolist():
        dur[op] = took.get(made[op].name, 50)
    timeline = replay(replace(made, ops=replace(made.ops, dur_ns=dur)))
    there = 100 + 1 + 2 + HANDED_NS + 100  # the last layer's rows, behind all else on the thread
    product = there + 3 + 2 * 60  # by when the first layer's are there too
    assert int(timeline.end_ns.max()) == product + 3 + 2 * 70 + COPIED_NS + 60


def test_layers_that_send_more_and_layers_not_named_are_exchanged_as_ever() -> None:
    named = under("sufficient_factors(rows=1, layers='fr*')", job())
    assert [size for _, size in talks(named)] == [
        2 * (8 + 4 * sum(FRONT)), EMBED.size_bytes + LINEAR[1].size_bytes
    ]  # fmt: skip
    for text in ("sufficient_factors(rows=3)", "sufficient_factors(rows=1, layers='embed')"):
        with pytest.raises(StrategyError, match=r"sends more on 2 workers.*front \(4 x 8\)"):
            parse(text).transform(job())


def test_what_is_handed_over_goes_by_recorded_rows_and_their_type() -> None:
    dims = {3: Matrix(1, *BACK, 16), 5: Matrix(1, *FRONT, 5)}
    made = under("sufficient_factors(rows=1)", job(dims=dims, dtype=DType.BFLOAT16))
    sizes = [2 * payload_bytes(BACK, 16, 2), 2 * payload_bytes(FRONT, 5, 2)]
    assert [size for _, size in talks(made)][:2] == sizes == [2 * 328, 2 * 128]
    grown = transformed(
        job(dims=dims), map(parse, ["batch(factor=2.0)", "sufficient_factors(rows=1)"])
    )
    assert talks(check(grown))[0][1] == 2 * payload_bytes(BACK, 32, 4)


def test_the_settings_worth_trying_have_the_rows_of_the_layer_with_most() -> None:
    kind = type(parse("sufficient_factors(rows=1)"))
    few = job(dims={3: Matrix(1, *BACK, 1), 5: Matrix(1, *FRONT, 2)})
    many = job(dims={3: Matrix(1, *BACK, 3), 5: Matrix(1, *FRONT, 3)})
    assert list(map(str, kind.choices(few))) == ["sufficient_factors(rows=2, layers='*')"]
    assert list(kind.choices(many)) == []
    assert list(kind.choices(job())) == []  # its products tell no rows


def test_where_all_gradients_travel_as_rows_no_bucket_is_left() -> None:
    made = under("sufficient_factors(rows=1)", job(LINEAR))
    assert [kind for kind, _ in talks(made)] == [Collective.ALL_GATHER] * 2
    names = [name for name, _ in on_thread(made)]
    assert not {"c10d", "wait", "copy"} & set(names)
    with pytest.raises(GraphError, match="which collectives reduce gradients"):
        parse("buckets(size_bytes=1)").transform(made)


def test_buckets_of_what_is_left_are_changed_behind_it() -> None:
    """Gathered rows may be as many bytes as half of the gradients, and are still no weights."""
    small = weight("embed", (10,), Role.OTHER)
    plan = map(parse, ["sufficient_factors(rows=1, layers='front')", "buckets(size_bytes=1)"])
    made = check(transformed(job((small, *LINEAR)), plan))
    gathered = 2 * payload_bytes(FRONT, 1, 4)
    assert sorted(size for _, size in talks(made)) == [40, LINEAR[1].size_bytes, gathered]
    assert 2 * gathered >= 40 + sum(p.size_bytes for p in LINEAR[1:])


def test_more_workers_gather_and_multiply_more() -> None:
    plan = map(parse, ["workers(count=3)", "sufficient_factors(rows=1)"])
    made = check(transformed(job(), plan))
    assert dict(on_thread(made, 2))["aten::mm"] == 3 * 70
    assert talks(made, 2)[0] == (Collective.ALL_GATHER, 3 * payload_bytes(BACK, 1, 4))


def test_gathers_of_two_workers_pass_in_each_others_waits() -> None:
    """A gather of two waits half as long as it moves; where more are under way another moves."""
    for count, share in ((2, 2 / 3), (3, 1.0)):
        plan = map(parse, [f"workers(count={count})", "sufficient_factors(rows=1)"])
        made = check(transformed(job(), plan))
        mine = (made.ops.collective == Collective.ALL_GATHER) & (made.ops.rank == 0)
        assert (made.ops.scale_ppb[mine] / 1e9).tolist() == pytest.approx([1.0, share])


def test_a_plan_says_what_is_then_sent() -> None:
    sends = sends_of(under("sufficient_factors(rows=1)", job()))
    gathered = 2 * (payload_bytes(BACK, 1, 4) + payload_bytes(FRONT, 1, 4))
    assert sends is not None
    assert sends.calls == 3
    assert sends.payload_bytes == gathered + EMBED.size_bytes
    assert sends.wire_bytes == gathered / 2 + EMBED.size_bytes


def test_own_and_gathered_rows_lie_in_memory_until_the_product_is_made() -> None:
    made = under("sufficient_factors(rows=1, layers='back')", job())
    memory = made.memory
    mine = memory.category == MemoryCategory.COMMUNICATION
    size = 3 * payload_bytes(BACK, 1, 4)
    assert memory.delta_bytes[mine].tolist() == [size, -size] * 2
    names = [(made[op].name, made[op].tensor) for op in memory.op[mine].tolist()]
    assert names == [("aten::mm", ""), ("aten::mul", "back.weight")] * 2


def test_a_device_waits_by_its_kernels() -> None:
    made = under("sufficient_factors(rows=1)", training(TrainingJob(machine=MachineKind.GPU)))
    waits = made.ops.kind == OpKind.WAIT
    before = training(TrainingJob(machine=MachineKind.GPU)).ops.kind == OpKind.WAIT
    assert waits.sum() <= before.sum()
    assert (made.ops.collective == Collective.ALL_GATHER).any()


def alone() -> Graph:
    """A job of one worker."""
    b = GraphBuilder(facts=Facts(world_size=1, parameters=LINEAR))
    main = b.lane(0, "main")
    for name, layer, dur, tensor in BACKWARD[:7]:
        b.op(name, main, dur, phase=Phase.BACKWARD, layer=layer, tensor=tensor)
    return check(b.build())


@pytest.mark.parametrize(
    ("graph", "said"),
    [
        (job((EMBED,)), "shows no product"),
        (training(TrainingJob(parallel=Parallel.TENSOR_DATA, tensor=2)), "share layers or stages"),
        (training(TrainingJob(parallel=Parallel.FSDP2)), "no gradients in buckets"),
        (alone(), "one worker"),
    ],
)
def test_jobs_that_it_does_not_fit_are_refused_with_the_reason(graph: Graph, said: str) -> None:
    change = parse("sufficient_factors(rows=1)")
    with pytest.raises((GraphError, StrategyError), match=said):
        change.transform(graph)
    assert list(type(change).choices(graph)) == []


def test_it_stands_behind_more_workers_and_before_buckets() -> None:
    mine = "sufficient_factors(rows=1)"
    for first, second in ((mine, "workers(count=4)"), ("buckets(size_bytes=1)", mine)):
        with pytest.raises(StrategyError, match="give"):
            Plan((parse(first), parse(second)))
    for other in ("fp16", "late_gradients", "local_sgd(period=2)", "zero1", "factored(rank=2)"):
        with pytest.raises(StrategyError, match="sufficient_factors"):
            Plan((parse(mine), parse(other)))
    with pytest.raises(StrategyError, match="give 1 or more"):
        parse("sufficient_factors(rows=0)")
