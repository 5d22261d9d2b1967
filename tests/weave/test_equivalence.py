"""Every transformed program equals the one as written: random programs, shapes, types, values."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from paceline.graph import DType
from paceline.weave.interpreter import Result, distribute, interpret, join
from paceline.weave.language import (
    AllReduce,
    Dropout,
    Ite,
    Maximum,
    Minimum,
    MulAdd,
    Norm,
    ReduceAll,
    ReduceScatter,
    Send,
    Sqrt,
    Tensor,
    Unary,
    Update,
    program,
    tensor,
)
from paceline.weave.layout import FLOATS, Group, Partial, Replicated
from paceline.weave.ops import ReduceKind, Role, UnaryKind
from paceline.weave.program import Program
from paceline.weave.programs import adam, hand_over, lamb, mlp, sgd, sliced_hand_over
from paceline.weave.transforms import (
    Refusal,
    SplitInto,
    applied,
    dead,
    fuse,
    overlap,
    p2p,
    reorder,
    slice_state,
    split,
)

MANY = settings(deadline=None, max_examples=60)
SOME = settings(deadline=None, max_examples=25)  # several programs an example
RANKS = st.integers(1, 5)
ODD = [np.nan, np.inf, -np.inf, 0.0, -0.0]
TOLERANCE = {DType.FLOAT64: 1e-13, DType.FLOAT32: 1e-5, DType.FLOAT16: 5e-3, DType.BFLOAT16: 4e-2}


def inputs(step: Program, seed: int, odd: bool) -> dict[str, object]:
    """Global values by name: state not negative, NaN and infinities where `odd`."""
    rng = np.random.default_rng(seed)
    values: dict[str, object] = {}
    for source in step.inputs:
        kind, role = source.type, source.op.role
        if role is Role.SCALAR:
            values[source.name] = 3 if kind.dtype is DType.INT64 else 0.125
            continue
        lead = (kind.group.size,) if isinstance(kind.layout, Partial) else ()
        made = rng.standard_normal((*lead, *kind.shape))
        if odd and made.size:
            made.flat[rng.integers(0, made.size, 2)] = rng.choice(ODD, 2)
        values[source.name] = np.abs(made) if role is Role.STATE else made
    return values


def same(a: Result, b: Result, *, exact: bool) -> None:
    """All inputs after the run and all returned values are equal, as global values."""
    names = [s.name for s in a.program.inputs] + list(a.program.returns)
    for name in names:
        left, right, dtype = a.value(name), b.value(name), a.program[name].type.dtype
        if exact or dtype not in FLOATS:
            np.testing.assert_array_equal(left, right, err_msg=name)
        else:
            np.testing.assert_array_equal(np.isfinite(left), np.isfinite(right), err_msg=name)
            finite = np.abs(left[np.isfinite(left)]).astype(np.float64)
            scale = TOLERANCE[dtype] * max(finite.max(initial=0.0), 1.0)
            np.testing.assert_allclose(left, right, rtol=TOLERANCE[dtype], atol=scale, err_msg=name)


def run(step: Program, values: dict[str, object]) -> Result:
    return interpret(step, distribute(step, values))


def schedules(step: Program, gathered: str) -> list[Program]:
    """Every stage on the way to the fused, sharded schedule, and the rooted split."""
    found = [applied(split(step, gathered, SplitInto.REDUCE_BROADCAST))]
    found.append(applied(split(step, gathered)))
    found.append(applied(reorder(found[-1], gathered)))
    state = [s.name for s in step.inputs if s.op.role is Role.STATE]
    if state:
        found.append(applied(slice_state(found[-1], *state)))
    fused = fuse(found[-1])
    return found if isinstance(fused, Refusal) else [*found, fused]


def expression(draw: st.DrawFn, pool: list[Tensor], *, reduce: bool) -> Tensor:
    """One more op on what is there."""
    x, y = draw(st.sampled_from(pool)), draw(st.sampled_from(pool))
    makers = [
        lambda: x + y,
        lambda: x - y * 0.5,
        lambda: Maximum(x, y) * 2.0,
        lambda: Minimum(x, 1.0) / 3.0,
        lambda: Sqrt(Unary(UnaryKind.ABS, x)),
        lambda: Unary(UnaryKind.TANH, -x),
        lambda: Ite(x > y, x, 1.5),
        lambda: MulAdd(x, 0.5, y),
        lambda: Ite(Unary(UnaryKind.IS_FINITE, x), x, 0.25),
        lambda: Dropout(x, 0.3, 7, site=len(pool)),
    ]
    if reduce:
        makers += [
            lambda: x / (Norm(x) + 1.0),
            lambda: x + ReduceAll(y, ReduceKind.MAX),
            lambda: x - ReduceAll(Unary(UnaryKind.TANH, y)) * 0.01,
        ]
    return draw(st.sampled_from(makers))()


@st.composite
def programs(draw: st.DrawFn, *, reduce: bool) -> Program:
    """An AllReduce and random work on it, a parameter and a state, both updated."""
    group, dtype = Group.world(draw(RANKS)), draw(st.sampled_from(FLOATS))
    rank = draw(st.integers(1, 2))
    shape = tuple(draw(st.lists(st.integers(1, 7), min_size=rank, max_size=rank)))
    g = tensor("g", shape, Partial(), group, dtype=dtype, role=Role.GRADIENT)
    w = tensor("w", shape, Replicated(), group, dtype=dtype, role=Role.PARAMETER)
    m = tensor("m", shape, Replicated(), group, dtype=dtype, role=Role.STATE)
    bias = tensor("bias", shape[-1:], Replicated(), group, dtype=dtype)
    total = AllReduce(g, name="total")
    pool = [total + m, w * 0.5, total + bias]
    for _ in range(draw(st.integers(1, 6))):
        pool.append(expression(draw, pool, reduce=reduce))
    stored = Update(m, pool[-1] + total * 0.0, name="m1")
    return program("random", Update(w, pool[-2] + stored, name="w1"), stored, pool[-1])


@MANY
@given(programs(reduce=False), st.integers(0, 2**31), st.booleans())
def test_pointwise_programs_keep_every_bit(step: Program, seed: int, odd: bool) -> None:
    values = inputs(step, seed, odd)
    written = run(step, values)
    for other in schedules(step, "total"):
        same(written, run(other, values), exact=True)


@MANY
@given(programs(reduce=True), st.integers(0, 2**31))
def test_programs_with_reductions_agree_to_rounding(step: Program, seed: int) -> None:
    values = inputs(step, seed, odd=False)
    written = run(step, values)
    for other in schedules(step, "total"):
        same(written, run(other, values), exact=False)


@SOME
@given(RANKS, st.integers(1, 9), st.sampled_from(FLOATS), st.integers(0, 2**31), st.booleans())
def test_optimizers_are_the_same_under_every_schedule(
    ranks: int, size: int, dtype: DType, seed: int, odd: bool
) -> None:
    group = Group.world(ranks)
    steps = [
        sgd(size, group, dtype=dtype, momentum=0.5, nesterov=True, decay=0.25),
        adam(size, group, dtype=dtype, eps=1e-2),
        adam(size, group, dtype=dtype, eps=1e-2, decay=0.5, decoupled=True),
    ]
    for step in steps:
        values = inputs(step, seed, odd)
        written = run(step, values)
        for other in schedules(step, "sum_g"):
            same(written, run(other, values), exact=True)


@SOME
@given(RANKS, st.integers(1, 5), st.integers(1, 5), st.integers(0, 2**31))
def test_lamb_and_clipping_agree_to_rounding(ranks: int, a: int, b: int, seed: int) -> None:
    group = Group.world(ranks)
    for step in (lamb((a, b), group, eps=1e-2), adam(a + b, group, eps=1e-2, max_norm=0.5)):
        values = inputs(step, seed, odd=False)
        written = run(step, values)
        for other in schedules(step, "sum_g"):
            same(written, run(other, values), exact=False)


@MANY
@given(RANKS, st.integers(2, 7), st.integers(1, 4), st.sampled_from(FLOATS), st.integers(0, 2**31))
def test_the_epilogue_is_the_same_under_every_schedule(
    ranks: int, rows: int, hidden: int, dtype: DType, seed: int
) -> None:
    step = mlp(rows, hidden, Group.world(ranks), dtype=dtype, p=0.4)
    values = inputs(step, seed, odd=False)
    written = run(step, values)
    cut = applied(overlap(step, "product", "total", chunks=2))
    for other in (*schedules(step, "total"), cut):
        same(written, run(other, values), exact=True)


@MANY
@given(st.integers(1, 4), st.integers(1, 7), st.integers(0, 2**31), st.booleans())
def test_the_hand_over_arrives_the_same(ranks: int, rows: int, seed: int, odd: bool) -> None:
    here, there = Group.world(ranks), Group(tuple(range(ranks, 2 * ranks)), "next")
    step = hand_over(rows, 3, here, there, dtype=DType.FLOAT32, p=0.5)
    values = inputs(step, seed, odd)
    same(run(step, values), run(sliced_hand_over(step), values), exact=True)


@MANY
@given(st.integers(1, 4), st.integers(1, 7), st.integers(0, 2**31))
def test_a_send_after_the_scatter_brings_the_same_slices(ranks: int, size: int, seed: int) -> None:
    here, there = Group.world(ranks), Group(tuple(range(ranks, 2 * ranks)), "next")
    x = tensor("x", (size,), Partial(), here)
    step = program("p", ReduceScatter(Send(x, there, name="sent"), name="part"))
    values = inputs(step, seed, odd=True)
    same(run(step, values), run(applied(p2p(step, "sent")), values), exact=True)


@MANY
@given(programs(reduce=False), st.integers(0, 2**31))
def test_dead_leaves_the_other_outputs_alone(step: Program, seed: int) -> None:
    values = inputs(step, seed, odd=True)
    smaller = applied(dead(step, "w1"))
    a, b = run(step, values), run(smaller, values)
    np.testing.assert_array_equal(a.value("m"), b.value("m"))
    np.testing.assert_array_equal(b.value("w"), join(step["w"].type, distribute(step, values)["w"]))
