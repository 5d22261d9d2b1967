"""Kernels that inductor generated: the operators that they replaced stand in their names.

`triton_poi_fused_add_mul_3` is pointwise (per and red reduce, tem is a template such as a product).
Their ranges carry the tensors that they were given; results are among these, so each is counted
once, and one both read and written in place twice.
"""

import re
from itertools import combinations
from math import isqrt
from typing import Final

from paceline.graph.work import Elements, Family, Matrix, Rows, Work, matrix
from paceline.trace.shapes.inputs import Inputs, Tensor

_NAME: Final = re.compile(r"triton_(poi|per|red|for|tem|mm)_fused_?(.*?)_?\d*$")
_FAMILY: Final = {
    "poi": Family.POINTWISE,
    "for": Family.POINTWISE,
    "per": Family.REDUCTION,
    "red": Family.REDUCTION,
    "tem": Family.MATRIX,
    "mm": Family.MATRIX,
}
_FUSED: Final = (
    (re.compile(r"native_layer_norm|rms_norm|batch_norm|group_norm|rsqrt"), Family.NORM),
    (re.compile(r"softmax"), Family.SOFTMAX),
    (re.compile(r"nll_loss"), Family.LOSS),
    (re.compile(r"embedding"), Family.EMBEDDING),
)
_TEMPLATES: Final = (
    (re.compile(r"flex_attention"), Family.ATTENTION),
    (re.compile(r"convolution"), Family.CONVOLUTION),
)
_PRODUCT: Final = re.compile(r"mm(?:_|$)|mm$|linear|matmul")
_BATCHED: Final = re.compile(r"bmm")


def is_generated(name: str) -> bool:
    return _NAME.match(name) is not None


def family_of(name: str) -> Family:
    """Of reductions and templates what they are for, as the fused operators' names tell."""
    found = _NAME.match(name)
    if found is None:
        return Family.OTHER
    kind = _FAMILY[found[1]]
    told = {Family.REDUCTION: _FUSED, Family.MATRIX: _TEMPLATES}.get(kind, ())
    return next((family for part, family in told if part.search(found[2])), kind)


def work_of(name: str, inputs: Inputs) -> Work | None:
    """None where the tensors do not tell what a template does."""
    tensors, family = inputs.tensors(), family_of(name)
    if family is Family.MATRIX:
        return _product(name, tensors)
    if not tensors or family in (Family.OTHER, Family.ATTENTION, Family.CONVOLUTION):
        return None
    largest = max(tensors, key=lambda tensor: tensor.count)
    steps = max(1, len([part for part in name.split("_fused_")[-1].split("_") if part.isalpha()]))
    whole = sum(tensor.stored_bytes for tensor in tensors)
    written = tensors[-1].stored_bytes
    dims = (
        Elements(largest.count, max(len(tensors) - 1, 1))
        if family is Family.POINTWISE
        else Rows(*_rows(largest.shape))
    )
    return Work(family, largest.dtype, dims, steps * largest.count, whole - written, written)


def _product(name: str, tensors: list[Tensor]) -> Work | None:
    """A template's tensors in the order of its arguments, the result last. Their counts tell the
    dimensions, however the operands are stored: b m k times b k n by b m n is b k k. What is added
    to the result may stand among the operands."""
    if len(tensors) < 3 or not _PRODUCT.search(name):
        return None
    *given, result = tensors
    batch = result.shape[0] if _BATCHED.search(name) and len(result.shape) > 2 else 1
    found = ((_dims(*pair, result, batch), pair[0].dtype) for pair in combinations(given, 2))
    fits = [(dims, dtype) for dims, dtype in found if dims is not None]
    if not fits:
        return None
    dims, dtype = max(fits, key=lambda fit: fit[0].k)
    return matrix(dims, dtype, result.dtype)


def _dims(left: Tensor, right: Tensor, result: Tensor, batch: int) -> Matrix | None:
    """None for tensors that are no operands of one product with that result."""
    if not batch or not result.count or left.count % batch or right.count % batch:
        return None
    inner = isqrt(left.count * right.count // (result.count * batch))
    if not inner or inner * inner * result.count * batch != left.count * right.count:
        return None
    if inner not in left.shape or inner not in right.shape:
        return None
    m, n = left.count // (batch * inner), right.count // (batch * inner)
    return Matrix(batch, m, n, inner)


def _rows(shape: tuple[int, ...]) -> tuple[int, int]:
    columns = shape[-1] if shape else 1
    rows = 1
    for size in shape[:-1]:
        rows *= size
    return rows, columns
