"""Products of matrices: mm, addmm, bmm, baddbmm, linear, grouped, fp8 and fp4."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from math import prod
from typing import Final

from paceline.graph import DType
from paceline.graph.work import Grouped, Matrix, Work, grouped, matrix
from paceline.trace.shapes.inputs import Inputs, ShapeError, Tensor

_SIXTEEN: Final = DType.BFLOAT16
"""What products of eight and four bits give, unless told otherwise."""


def _product(left: Tensor, right: Tensor, added: Tensor | None = None) -> Work:
    """Matrices, vectors, or batches of either."""
    m, k = left.shape[-2:] if len(left.shape) > 1 else (1, *left.shape)
    inner, n = right.shape[-2:] if len(right.shape) > 1 else (*right.shape, 1)
    if k != inner:
        raise ShapeError(f"{left.shape} x {right.shape}")
    b = max(prod(left.shape[:-2]), prod(right.shape[:-2]))
    return matrix(Matrix(b, m, n, k), left.dtype, added_elements=added.stored if added else 0)


def _two(inputs: Inputs, place: int = 0) -> Work:
    return _product(inputs.tensor(place), inputs.tensor(place + 1))


def _added(inputs: Inputs) -> Work:
    """beta * first + alpha * second @ third."""
    return _product(inputs.tensor(1), inputs.tensor(2), inputs.tensor(0))


def _summed(inputs: Inputs) -> Work:
    """addbmm: the batch is summed, as if it were more of the inner dimension."""
    left, right = inputs.tensor(1), inputs.tensor(2)
    b, m, k = left.shape
    return matrix(Matrix(1, m, right.shape[-1], b * k), left.dtype)


def _outer(inputs: Inputs, place: int = 0) -> Work:
    left, right = inputs.tensor(place), inputs.tensor(place + 1)
    return matrix(Matrix(1, left.count, right.count, 1), left.dtype)


def _linear(inputs: Inputs) -> Work:
    """Features last; the weight is output features x input features."""
    data, weight = inputs.tensor(0), inputs.tensor(1)
    n, k = weight.shape[0], weight.shape[-1]
    if not data.shape or data.shape[-1] != k:
        raise ShapeError(f"{data.shape} through {weight.shape}")
    bias = inputs.optional(2)
    added = bias.stored if bias else 0
    return matrix(Matrix(1, prod(data.shape[:-1]), n, k), data.dtype, added_elements=added)


def _scaled(inputs: Inputs) -> Work:
    """Eight bits in, sixteen out; four bits are stored two in a byte."""
    left, right = inputs.tensor(0), inputs.tensor(1)
    work = _product(left, right)
    if left.dtype is DType.FLOAT4 and isinstance(work.dims, Matrix):
        dims = replace(work.dims, k=2 * work.dims.k)
        return matrix(dims, DType.FLOAT4, _SIXTEEN)
    assert isinstance(work.dims, Matrix)
    return matrix(work.dims, left.dtype, _SIXTEEN)


def _grouped(inputs: Inputs) -> Work:
    """Rows by expert and a matrix for each, or (both flat) a matrix made for each."""
    left, right = inputs.tensor(0), inputs.tensor(1)
    out = _SIXTEEN if left.dtype is DType.FLOAT8 else left.dtype
    if len(right.shape) == 3:
        groups, k, n = right.shape
        rows = prod(left.shape[:-1])
        return grouped(Grouped(groups, rows, n, k), left.dtype, out)
    if len(left.shape) == 3:
        groups, m, k = left.shape
        return grouped(Grouped(groups, right.shape[-1], m, k), left.dtype, out)
    return matrix(Matrix(1, left.shape[0], right.shape[1], left.shape[1]), left.dtype, out)


_second: Final = partial(_two, place=1)

RULES: Final[Mapping[str, Callable[[Inputs], Work]]] = {
    "aten::mm": _two,
    "aten::bmm": _two,
    "aten::mv": _two,
    "aten::dot": _two,
    "aten::vdot": _two,
    "aten::_int_mm": _two,
    "aten::addmm": _added,
    "aten::addmm_": _added,
    "aten::_addmm_activation": _added,
    "aten::baddbmm": _added,
    "aten::baddbmm_": _added,
    "aten::addmv": _second,
    "aten::addmv_": _second,
    "aten::addbmm": _summed,
    "aten::ger": _outer,
    "aten::outer": _outer,
    "aten::addr": partial(_outer, place=1),
    "aten::linear": _linear,
    "aten::mkldnn_linear": _linear,
    "aten::_sparse_semi_structured_linear": _linear,
    "mkldnn::_linear_pointwise": _linear,
    "mkl::_mkl_linear": _linear,
    "aten::_scaled_mm": _scaled,
    "aten::_scaled_mm_v2": _scaled,
    "aten::_grouped_mm": _grouped,
    "aten::_scaled_grouped_mm": _grouped,
    "aten::_scaled_grouped_mm_v2": _grouped,
}
