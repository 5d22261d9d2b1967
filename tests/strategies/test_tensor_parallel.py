"""`tensor_parallel`: what a step then does and sends, by hand, and what is refused.

Workers train two linear layers of 8 x 4 and 4 x 8 with a ReLU between them, of which the first
takes the data, and then one of 3 x 4 that is in no pair; rows are 5.
"""

from collections.abc import Sequence
from dataclasses import replace
from math import prod

import numpy as np
import pytest

from paceline.cost.collectives.volume import sent_share
from paceline.errors import PacelineError
from paceline.graph import (
    UNPRICED,
    Axis,
    Collective,
    DType,
    Facts,
    Graph,
    GraphBuilder,
    LaneKind,
    MemoryCategory,
    OpKind,
    Parameter,
    Phase,
    RankMemory,
    Role,
    check,
)
from paceline.graph.kinds import DepKind
from paceline.graph.work import Matrix, Recorded, matrix
from paceline.replay import replay
from paceline.strategies import Plan, StrategyError, parse, transformed
from paceline.strategies.sends import sends_of

ROWS, HANDED_NS = 5, 4
SHAPES = {"0": (8, 4), "2": (4, 8), "4": (3, 4)}
FORWARD = (("aten::linear", "0", 100), ("aten::relu", "1", 20), ("aten::linear", "2", 110),
           ("aten::add", "3", 7), ("aten::linear", "4", 30))  # fmt: skip
PAIR = "tensor_parallel(degree=2)"


def parameters(names: Sequence[str]) -> list[Parameter]:
    found = []
    for layer in names:
        shape = SHAPES[layer]
        found.append(
            Parameter(f"{layer}.weight", 4 * prod(shape), shape, layer, Role.LINEAR_WEIGHT)
        )
        found.append(Parameter(f"{layer}.bias", 4 * shape[0], shape[:1], layer))
    return found


def job(
    workers: int = 2,
    layers: Sequence[str] = ("0", "2", "4"),
    forward: Sequence[tuple[str, str, int]] = FORWARD,
    rows: int = ROWS,
) -> Graph:
    """One step, its gradients in one bucket."""
    weights = parameters(layers)
    held = [RankMemory(rank, 1000, 1000, 2000, 1000) for rank in range(workers)]
    facts = Facts(world_size=workers, parameters=tuple(weights), memory=tuple(held))
    b = GraphBuilder(facts=facts)
    group, instance = b.group("0", range(workers), Axis.DATA), b.instance()
    for rank in range(workers):
        main, gloo = b.lane(rank, "main"), b.lane(rank, "gloo", kind=LaneKind.COMM_THREAD)
        for name, layer, took in forward:
            op = b.op(name, main, took, phase=Phase.FORWARD, layer=layer)
        b.allocate(op, 100, MemoryCategory.TEMPORARY)
        b.allocate(op, -100, MemoryCategory.TEMPORARY, at_end=True)
        ready = []
        for parameter in reversed(weights):
            if parameter.role is Role.LINEAR_WEIGHT:
                outputs, inputs = parameter.shape
                work = Recorded("aten::mm", matrix(Matrix(1, outputs, inputs, rows), DType.FLOAT32))
                took = 200 if parameter.layer == "2" else 130
                b.op("aten::mm", main, took, phase=Phase.BACKWARD, layer=parameter.layer,
                     dtype=DType.FLOAT32, work=work if rows else None)  # fmt: skip
            ready.append(b.op("mul", main, 10, phase=Phase.BACKWARD, tensor=parameter.name))
        asked = b.op("c10d", main, HANDED_NS, kind=OpKind.HOST, phase=Phase.COMMUNICATION)
        sent = b.op(
            "gloo:all_reduce", gloo, 50, after=[asked], dep=DepKind.LAUNCH, group=group,
            kind=OpKind.COLLECTIVE, phase=Phase.COMMUNICATION, instance=instance,
            collective=Collective.ALL_REDUCE, dtype=DType.FLOAT32,
            size_bytes=sum(p.size_bytes for p in weights),
        )  # fmt: skip
        for op in ready:
            b.link(op, sent, DepKind.GRADIENT)
        b.op("wait", main, after=[sent], dep=DepKind.WAIT, kind=OpKind.WAIT)
        b.op("copy", main, 40, phase=Phase.BACKWARD)
        b.op("sgd", main, 80, phase=Phase.UPDATE)
    return check(b.build())


def under(text: str, graph: Graph) -> Graph:
    return check(parse(text).transform(graph))


def on_thread(graph: Graph, rank: int = 0) -> list[tuple[str, int]]:
    threads = graph.lanes.kind[graph.ops.lane] == LaneKind.THREAD
    rows = np.flatnonzero((graph.ops.rank == rank) & threads)
    return [(graph[op].name, graph[op].dur_ns) for op in rows.tolist()]


def talks(graph: Graph, axis: Axis, rank: int = 0) -> list[tuple[Collective, int, tuple[int, ...]]]:
    """A rank's calls along an axis, in order: of how many bytes, among whom."""
    ops, groups = graph.ops, graph.groups
    rows = np.flatnonzero((ops.kind == OpKind.COLLECTIVE) & (ops.rank == rank))
    return [(Collective(ops.collective[r]), int(ops.size_bytes[r]), groups[ops.group[r]].ranks)
            for r in rows if groups[ops.group[r]].axis is axis]  # fmt: skip


HAND_OVER = [("take own rows", UNPRICED), ("hand rows over", HANDED_NS)]
TAKE_IN = [("wait for rows", 0), ("take rows in", UNPRICED)]
CUT, REST = 4 * (32 + 8 + 32), 4 * (4 + 12 + 3)
"""Bytes of what is cut, and of what stays whole: the second layer's bias, and the last layer."""
LEFT = (CUT / 2 + REST) / (CUT + REST)


def test_rows_are_gathered_before_a_pair_and_summed_back_behind_it() -> None:
    made = under(PAIR, job())
    wanted = [
        *HAND_OVER, *TAKE_IN, ("aten::linear", 100), ("aten::relu", 20), ("aten::linear", 110),
        *HAND_OVER, *TAKE_IN, ("aten::add", 7), ("aten::linear", 30),
        ("mul", 10), ("aten::mm", 130), ("mul", 10), ("mul", 10), ("c10d", HANDED_NS),
        *HAND_OVER, *TAKE_IN, ("aten::mm", 200), ("mul", 5),
        ("mul", 5), ("aten::mm", 130), ("mul", 5),
    ]  # fmt: skip
    for rank in (0, 1):
        assert on_thread(made, rank)[: len(wanted)] == wanted
    behind = dict(on_thread(made)[len(wanted) :])
    assert behind["sgd"] == round(80 * LEFT)
    assert "wait for a part" not in behind


def test_calls_have_the_sizes_of_the_group_s_rows() -> None:
    entry, leave = 2 * (8 + 4 * ROWS * 4), 2 * 4 * ROWS * 4
    each = [(Collective.ALL_TO_ALL, size, (0, 1)) for size in (entry, leave, leave)]
    made = under(PAIR, job())
    assert talks(made, Axis.TENSOR) == each
    assert talks(made, Axis.DATA) == [(Collective.ALL_REDUCE, REST, (0, 1))]
    asked = under("tensor_parallel(degree=2, rows=9)", job())
    assert talks(asked, Axis.TENSOR)[1][1] == 2 * 4 * 9 * 4
    grown = check(transformed(job(), [parse("batch(factor=3.0)"), parse(PAIR)]))
    assert talks(grown, Axis.TENSOR)[1][1] == 2 * 4 * 3 * ROWS * 4


def test_a_layer_before_a_pair_waits_for_the_sum_of_its_gradient() -> None:
    """The pair is the second and third layer; what it passes on goes behind all of its work."""
    ahead = (("aten::linear", "4", 30), ("aten::layer_norm", "3", 7), *FORWARD[:3])
    made = under(PAIR, job(layers=("4", "0", "2"), forward=ahead))
    sizes = [size for _, size, _ in talks(made, Axis.TENSOR)]
    assert sizes == [2 * (8 + 4 * ROWS * 4), *(3 * [2 * 4 * ROWS * 4])]
    names = [name for name, _ in on_thread(made)]
    last = len(names) - 1 - names[::-1].index("take rows in")
    assert names[last + 1 : last + 3] == ["mul", "aten::mm"]  # of the layer before


def test_parts_are_reduced_by_those_who_hold_them_and_the_update_waits() -> None:
    made = under(PAIR, job(4))
    for rank in range(4):
        holders, sharers = (rank % 2, rank % 2 + 2), (rank - rank % 2, rank - rank % 2 + 1)
        calls = talks(made, Axis.DATA, rank)
        parts = [call for call in calls if call[2] == holders]
        assert parts == [(Collective.ALL_REDUCE, 4 * n // 2, holders) for n in (32, 8, 32)]
        assert [call for call in calls if call not in parts] == [
            (Collective.ALL_REDUCE, REST, (0, 1, 2, 3))
        ]
        assert {ranks for _, _, ranks in talks(made, Axis.TENSOR, rank)} == {sharers}
    assert sum(name == "wait for a part" for name, _ in on_thread(made)) == 3


def test_the_replayed_step_is_that_worked_out_by_hand() -> None:
    took = {"take own rows": 2, "take rows in": 3, "rows of a pair": 1000, "reduce a part": 9000}
    ends = []
    for workers in (2, 4):
        made = under(PAIR, job(workers))
        dur = made.ops.dur_ns.copy()
        for op in np.flatnonzero(dur < 0).tolist():
            dur[op] = took.get(made[op].name, 50)
        ends.append(int(replay(replace(made, ops=replace(made.ops, dur_ns=dur))).end_ns.max()))
    exchange = 2 + HANDED_NS + 1000 + 3
    forward = 2 * exchange + 100 + 20 + 110 + 7 + 30
    second = forward + 10 + 130 + 10 + 10 + HANDED_NS + exchange + 200 + 5
    copied, update = round(40 * REST / (CUT + REST)), round(80 * LEFT)
    assert ends[0] == second + 5 + 130 + 5 + copied + update
    # the second weight's part goes behind its gradient, and two others behind it
    assert ends[1] == second + HANDED_NS + 3 * 9000 + update


def test_a_worker_holds_parts_and_the_other_rows_for_as_long_as_the_pair_needs_them() -> None:
    made = under(PAIR, job())
    gone = CUT / 2 / (CUT + REST)
    (held, _) = made.facts.memory
    assert (held.weights, held.gradients) == (round(1000 - 1000 * gone), round(1000 - 1000 * gone))
    assert held.optimizer == round(2000 * (1 - gone))
    assert held.communication == round(1000 * REST / (CUT + REST))
    mine = made.memory.category == MemoryCategory.COMMUNICATION
    size = 8 + 4 * ROWS * 4
    assert made.memory.delta_bytes[mine].tolist() == [size, -size] * 2
    names = [(made[op].name, made[op].tensor) for op in made.memory.op[mine].tolist()]
    assert names[:2] == [("aten::linear", ""), ("mul", "0.weight")]


def test_a_plan_says_what_is_then_sent() -> None:
    for workers in (2, 4):
        sends = sends_of(under(PAIR, job(workers)))
        rows = 2 * 8 + 3 * 2 * 4 * ROWS * 4
        parts = CUT / 2 if workers > 2 else 0
        assert sends is not None
        assert sends.calls == 3 + 1 + (3 if workers > 2 else 0)
        assert sends.payload_bytes == rows + REST + parts
        whole = sent_share(Collective.ALL_REDUCE, workers)
        assert sends.wire_bytes == pytest.approx(rows / 2 + REST * whole + parts)


def test_where_pairs_are_all_there_is_the_other_biases_alone_are_in_buckets() -> None:
    made = under(PAIR, job(layers=("0", "2"), forward=FORWARD[:3]))
    assert talks(made, Axis.DATA) == [(Collective.ALL_REDUCE, 16, (0, 1))]
    bare = job(layers=("0", "2"), forward=FORWARD[:3])
    weights = tuple(p for p in bare.facts.parameters if not p.name.startswith("2.bias"))
    none = under(PAIR, replace(bare, facts=replace(bare.facts, parameters=weights)))
    assert talks(none, Axis.DATA) == []
    assert "c10d" not in dict(on_thread(none))


@pytest.mark.parametrize(
    ("between", "pairs"),
    [
        (["aten::gelu"], True),
        (["aten::silu", "aten::dropout", "aten::mul"], True),
        (["aten::tanh", "aten::native_dropout"], True),
        ([], False),  # as of two projections of one input
        (["aten::silu", "aten::mul"], False),  # by the result of another layer
        (["aten::relu", "aten::add"], False),
        (["aten::relu", "aten::bmm"], False),
        (["aten::native_layer_norm", "aten::relu"], False),
        (["aten::view"], False),
    ],
)
def test_layers_are_a_pair_by_what_the_recording_shows_between_them(
    between: list[str], pairs: bool
) -> None:
    steps = [(name, "1", 10) for name in between]
    graph = job(forward=(FORWARD[0], *steps, *FORWARD[2:]))
    refusal = parse(PAIR).refusal(graph)
    assert (refusal is None) == pairs
    assert pairs or "through elementwise work alone" in str(refusal)


def test_any_step_that_was_recorded_shows_the_pairs() -> None:
    late = job()
    late = replace(late, ops=replace(late.ops, step=late.ops.step + 22))
    assert len(talks(under(PAIR, late), Axis.TENSOR)) == 3


@pytest.mark.parametrize(
    ("graph", "text", "told"),
    [
        (job(), "tensor_parallel(degree=3)", "3 linear layers, and no two .* that 3 divides"),
        (job(), "tensor_parallel(degree=8)", r"2 workers cannot .* by 8; .* workers\(count=8\)"),
        (job(rows=0), PAIR, "does not tell how many rows a worker has in 0"),
    ],
)
def test_jobs_that_it_does_not_fit_are_refused_with_the_reason(
    graph: Graph, text: str, told: str
) -> None:
    with pytest.raises(PacelineError, match=told.replace(".*", "(.|\n)*")):
        parse(text).transform(graph)


def test_settings_worth_trying_divide_the_workers_and_some_pair() -> None:
    kind = type(parse(PAIR))
    assert list(map(str, kind.choices(job()))) == ["tensor_parallel(degree=2, rows=0)"]
    assert [getattr(c, "degree", 0) for c in kind.choices(job(8))] == [2, 4, 8]
    assert list(kind.choices(job(3))) == list(kind.choices(job(rows=0))) == []


def test_more_workers_and_buckets_come_before_shared_pairs() -> None:
    made = check(
        transformed(job(2), [parse("workers(count=8)"), parse("tensor_parallel(degree=4)")])
    )
    assert made.world_size == 8
    small = check(transformed(job(), [parse("buckets(size_bytes=40)"), parse(PAIR)]))
    assert [size for _, size, _ in talks(small, Axis.DATA)] == [REST - 16, 16]
    for first, second in ((PAIR, "workers(count=4)"), (PAIR, "buckets(size_bytes=1)")):
        with pytest.raises(StrategyError, match="give"):
            Plan((parse(first), parse(second)))
    for other in ("fp16", "zero1", "fully_sharded", "local_sgd(period=2)", "checkpoint"):
        with pytest.raises(StrategyError, match="tensor_parallel"):
            Plan((parse(PAIR), parse(other)))
