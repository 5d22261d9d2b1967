"""Arithmetic and bytes of an operator follow from its dimensions."""

from hypothesis import given
from hypothesis import strategies as st

from paceline.graph import DType
from paceline.graph.work import (
    DIMENSIONS,
    Attention,
    Convolution,
    Elements,
    Family,
    Grouped,
    Matrix,
    Rows,
    Way,
    attention,
    convolution,
    copied,
    element_bytes,
    embedding,
    grouped,
    matrix,
    norm,
    optimizer,
    pointwise,
    softmax,
)

SIZES = st.integers(1, 4096)


def test_a_product_multiplies_and_adds_once_per_row_column_and_inner_element() -> None:
    work = matrix(Matrix(b=2, m=3, n=5, k=7), DType.BFLOAT16)
    assert work.flops == 2 * 2 * 3 * 5 * 7
    assert work.read_bytes == 2 * (3 * 7 + 7 * 5) * 2
    assert work.written_bytes == 2 * 3 * 5 * 2


def test_a_product_in_eight_bits_may_write_sixteen() -> None:
    work = matrix(Matrix(1, 4, 4, 4), DType.FLOAT8, DType.BFLOAT16)
    assert (work.read_bytes, work.written_bytes) == (32, 32)


@given(SIZES, SIZES, SIZES, SIZES)
def test_one_group_of_experts_is_a_plain_product(m: int, n: int, k: int, b: int) -> None:
    one = grouped(Grouped(1, b * m, n, k), DType.BFLOAT16)
    assert one.flops == matrix(Matrix(1, b * m, n, k), DType.BFLOAT16).flops


def test_both_gradients_of_a_convolution_are_its_two_backward_passes() -> None:
    dims = Convolution(8, 64, 128, 56 * 56, 28 * 28, 9, 4)
    both, data, weight = (
        convolution(dims, DType.FLOAT16, way)
        for way in (Way.BACKWARD, Way.BACKWARD_DATA, Way.BACKWARD_WEIGHT)
    )
    assert both.flops == data.flops + weight.flops
    assert both.written_bytes == data.written_bytes + weight.written_bytes


def test_groups_divide_the_arithmetic_of_a_convolution() -> None:
    whole = convolution(Convolution(1, 64, 64, 100, 100, 9, 1), DType.FLOAT32)
    depthwise = convolution(Convolution(1, 64, 64, 100, 100, 9, 1, groups=64), DType.FLOAT32)
    assert whole.flops == 64 * depthwise.flops


@given(SIZES, SIZES)
def test_a_causal_mask_spares_flops_which_dense_flops_still_count(s: int, s_kv: int) -> None:
    full, causal = (
        attention(Attention(2, 8, 2, s, s_kv, 64, 64, causal), DType.BFLOAT16)
        for causal in (False, True)
    )
    assert causal.flops <= full.flops
    assert causal.dense_flops == full.dense_flops == full.flops


def test_a_causal_square_is_half_of_the_pairs_and_half_of_the_diagonal() -> None:
    work = attention(Attention(1, 1, 1, 4, 4, 2, 2, causal=True), DType.FLOAT32)
    assert work.flops == 2 * 10 * 4


def test_keys_that_heads_share_are_read_once() -> None:
    shared, own = (
        attention(Attention(1, 16, heads, 128, 128, 64, 64), DType.BFLOAT16) for heads in (2, 16)
    )
    assert shared.flops == own.flops
    assert own.read_bytes - shared.read_bytes == 2 * 14 * 128 * 64 * 2


def test_what_a_row_kernel_moves_is_its_tensor_in_and_out() -> None:
    work = softmax(Rows(10, 20), DType.FLOAT32)
    assert (work.read_bytes, work.written_bytes) == (800, 800)
    back = norm(Rows(10, 20), DType.FLOAT32, Way.BACKWARD)
    assert back.read_bytes > 2 * 800


def test_a_pointwise_operator_reads_each_input_once() -> None:
    assert pointwise(Elements(100, 2), DType.BFLOAT16).size_bytes == 600
    assert copied(100, DType.FLOAT32, DType.BFLOAT16).size_bytes == 600
    assert embedding(Rows(4, 8), DType.FLOAT32).written_bytes == 128
    assert optimizer(Elements(10, 4), DType.FLOAT32, written=3).size_bytes == 280


def test_every_family_says_what_its_dimensions_are_and_every_type_how_large_it_is() -> None:
    assert set(DIMENSIONS) == set(Family)
    assert all(element_bytes(dtype) > 0 for dtype in DType)
