"""The interpreter: what programs mean, by hand and against torch."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paceline.graph import DType
from paceline.weave.compute import global_index
from paceline.weave.interpreter import distribute, interpret, join, split
from paceline.weave.language import (
    AllGather,
    AllReduce,
    AllToAll,
    Broadcast,
    Dropout,
    MatMul,
    ReduceAll,
    ReduceScatter,
    ReduceTo,
    Repeat,
    Send,
    Tensor,
    program,
    scalar,
    tensor,
)
from paceline.weave.layout import Group, Layout, Partial, Reduction, Replicated, Sliced
from paceline.weave.numbers import keep_mask, mul_add, philox, round_bfloat16
from paceline.weave.ops import ReduceKind
from paceline.weave.rules import WeaveError

TWO, THREE = Group.world(2), Group.world(3)


def vector(layout: Layout, size: int = 4, group: Group = TWO) -> Tensor:
    return tensor("x", (size,), layout, group)


def run(output: Tensor, x: object) -> list[list[float]]:
    step = program("p", output)
    result = interpret(step, distribute(step, {"x": x}))
    return [part.tolist() for part in result.parts[step.outputs[0]]]


def test_collectives_by_hand() -> None:
    parts = [[1, 2, 3, 4], [10, 20, 30, 40]]
    assert run(AllReduce(vector(Partial())), parts) == [[11, 22, 33, 44]] * 2
    assert run(AllReduce(vector(Partial(Reduction.MAX))), parts) == [[10, 20, 30, 40]] * 2
    assert run(ReduceScatter(vector(Partial())), parts) == [[11, 22], [33, 44]]
    assert run(ReduceTo(vector(Partial()), 1), parts) == [[0, 0, 0, 0], [11, 22, 33, 44]]
    assert run(Broadcast(ReduceTo(vector(Partial()), 1), 1), parts) == [[11, 22, 33, 44]] * 2
    assert run(AllGather(vector(Sliced(0))), [1, 2, 3, 4]) == [[1, 2, 3, 4]] * 2
    assert run(Send(vector(Sliced(0)), Group((5, 6), "next")), [1, 2, 3, 4]) == [[1, 2], [3, 4]]


def test_all_to_all_moves_the_cut_to_another_dim() -> None:
    x = tensor("x", (2, 2), Sliced(0), TWO)
    assert run(AllToAll(x, 1), [[1, 2], [3, 4]]) == [[[1], [3]], [[2], [4]]]


FLOAT32 = st.floats(-(2.0**50), 2.0**50, width=32)


@settings(deadline=None, max_examples=200)
@given(FLOAT32, FLOAT32, FLOAT32)
def test_mul_add_is_the_32_bit_number_nearest_to_the_exact_value(a, b, c) -> None:
    exact = Fraction(a) * Fraction(b) + Fraction(c)
    found = mul_add(*(np.asarray(x, np.float32) for x in (a, b, c)))
    off = abs(Fraction(float(found)) - exact)
    beside = [np.nextafter(found, np.float32(x)) for x in (-np.inf, np.inf)]
    assert all(off <= abs(Fraction(float(x)) - exact) for x in beside)


def test_mul_add_rounds_once() -> None:
    """(1 + 2^-12)^2 lies half-way between two numbers; what is added decides."""
    x = np.asarray([1 + 2**-12] * 2, np.float32)
    found = mul_add(x, x, np.asarray([2**-60, -(2**-60)], np.float32))
    assert found.tolist() == [1 + 2**-11 + 2**-23, 1 + 2**-11]
    with np.errstate(invalid="ignore"):
        odd = mul_add(*np.asarray([[np.inf, np.nan], [1, 1], [-np.inf, 1]], np.float32))
    assert np.isnan(odd).all()


def test_uneven_and_empty_slices_keep_every_element_once() -> None:
    assert run(ReduceScatter(vector(Partial(), 4, THREE)), [[1, 2, 3, 4]] * 3) == [
        [3, 6],
        [9, 12],
        [],
    ]
    assert run(ReduceAll(vector(Sliced(0), 2, THREE), ReduceKind.MAX), [5, 7]) == [5, 7, -np.inf]


def test_reductions_over_slices_leave_parts_that_join() -> None:
    step = program("sum", ReduceAll(vector(Sliced(0), 5, THREE)))
    result = interpret(step, distribute(step, {"x": [1, 2, 3, 4, 5]}))
    assert [float(p) for p in result.parts["sum"]] == [3, 7, 5]
    assert float(result.value("sum")) == 15


def test_segments_are_folded_and_repeated_across_slices() -> None:
    x = vector(Sliced(0), 5, TWO)
    sums = AllReduce(ReduceAll(x, segments=(1, 3, 1)))
    assert run(sums, [1, 2, 3, 4, 5]) == [[1, 9, 5]] * 2
    assert run(Repeat(sums, (1, 3, 1)), [1, 2, 3, 4, 5])[0] == [1, 9, 9, 9, 5]


def test_a_row_parallel_product_sums_to_the_whole_product() -> None:
    a, b = tensor("a", (3, 4), Sliced(1), TWO), tensor("b", (4, 2), Sliced(0), TWO)
    step = program("linear", AllReduce(MatMul(a, b), name="y"))
    left, right = np.arange(12.0).reshape(3, 4), np.arange(8.0).reshape(4, 2)
    result = interpret(step, distribute(step, {"a": left, "b": right}))
    assert result.value("y").tolist() == (left @ right).tolist()


@pytest.mark.parametrize(
    ("key", "counter", "word"),
    [
        ((0, 0), (0, 0, 0, 0), 0x6627E8D5),
        ((2**32 - 1,) * 2, (2**32 - 1,) * 4, 0x408F276D),
        (
            (0xA4093822, 0x299F31D0),
            (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
            0xD16CFE09,
        ),
    ],
)
def test_philox_gives_the_published_numbers(key, counter, word) -> None:
    """Known answers of the Random123 library."""
    words = tuple(np.array([c], np.int64) for c in counter)
    assert int(philox(key, words)[0]) == word


def test_dropout_draws_by_global_element_whatever_the_slices() -> None:
    whole = run(Dropout(vector(Replicated(), 7, THREE), 0.5, 3), np.ones(7))[0]
    cut = run(Dropout(vector(Sliced(0), 7, THREE), 0.5, 3), np.ones(7))
    assert [x for part in cut for x in part] == whole
    assert set(whole) == {0.0, 2.0}
    other = run(Dropout(vector(Replicated(), 7, THREE), 0.5, 3, site=1), np.ones(7))[0]
    assert other != whole


def test_dropout_keeps_the_share_it_says() -> None:
    kept = keep_mask(11, 0, np.arange(100_000, dtype=np.int64), 0.3).mean()
    assert abs(kept - 0.7) < 0.005


def test_sixteen_bits_round_once_an_operation() -> None:
    x = tensor("x", (1,), Replicated(), TWO, dtype=DType.BFLOAT16)
    assert run(x + 1.0, [2.0**-9]) == [[1.0], [1.0]]
    assert round_bfloat16(np.array([1 + 2**-8, 1 + 3 * 2**-8], np.float32)).tolist() == [
        1.0,
        1 + 2**-6,
    ]
    assert np.isnan(round_bfloat16(np.array([np.nan], np.float32)))[0]
    half = tensor("x", (1,), Replicated(), TWO, dtype=DType.FLOAT16)
    assert run(half * 2.0, [65504.0]) == [[np.inf], [np.inf]]


def test_a_number_is_computed_in_double_before_it_meets_a_tensor() -> None:
    t = scalar("t", TWO)
    step = program("bias", 1 - 0.999**t)
    result = interpret(step, distribute(step, {"t": 1.0}))
    assert float(result.value(step.outputs[0])) == 1 - 0.999


def test_global_index_is_row_major() -> None:
    x = tensor("x", (2, 4), Sliced(1), TWO)
    assert global_index(x.type, 1).tolist() == [[2, 3], [6, 7]]


def test_wrong_inputs_are_named() -> None:
    step = program("p", AllReduce(vector(Partial())))
    with pytest.raises(WeaveError, match="no value for x"):
        interpret(step, {})
    with pytest.raises(WeaveError, match="takes 2"):
        distribute(step, {"x": [[1, 2, 3, 4]]})
    with pytest.raises(WeaveError, match="has shape"):
        split(vector(Replicated()).type, [1, 2])


def test_replicas_that_differ_are_caught() -> None:
    parts = (np.zeros(4, np.float32), np.ones(4, np.float32))
    with pytest.raises(WeaveError, match="different values"):
        join(vector(Replicated()).type, parts)
