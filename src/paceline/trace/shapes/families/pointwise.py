"""What works element by element, by torch's own tag, and losses that compare whole tensors."""

from collections.abc import Callable, Mapping
from functools import partial
from math import prod
from typing import Final

from paceline.graph import DType
from paceline.graph.work import Elements, Work, pointwise
from paceline.graph.work.sizes import element_bytes
from paceline.trace.shapes.inputs import Inputs, ShapeError, Tensor

_TAGGED: Final = (
    "__ilshift__ __ixor__ __lshift__ __rshift__ __xor__ __and__ __iand__ __or__ __ior__ "
    "_conj_physical abs acos acosh add addcdiv addcmul angle asin asinh atan atan2 atanh "
    "bitwise_and bitwise_left_shift bitwise_not bitwise_or bitwise_right_shift bitwise_xor ceil "
    "celu clamp clamp_max clamp_min clip conj_physical copysign cos cosh deg2rad digamma div elu "
    "erf erfc erfinv exp exp2 expm1 float_power floor fmax fmin fmod frac frexp gcd gelu "
    "gelu_backward hardshrink hardsigmoid hardtanh heaviside hypot i0 igamma lcm ldexp leaky_relu "
    "lerp lgamma log log10 log1p log2 logaddexp logaddexp2 logit logit_backward masked_fill max "
    "maximum min minimum mish mul mvlgamma nan_to_num native_dropout_backward neg nextafter "
    "polygamma positive pow rad2deg reciprocal relu relu6 remainder round rrelu rsqrt rsub selu "
    "sgn sigmoid sigmoid_backward sign silu silu_backward sin sinc sinh softplus softshrink sqrt "
    "square sub tan tanh tanh_backward threshold threshold_backward true_divide trunc where xlogy"
).split()
"""Operators with torch's tag `pointwise` (2.13), their in-place forms beside them."""
_BACKWARD: Final = (
    "hardtanh_backward hardsigmoid_backward hardswish_backward leaky_relu_backward elu_backward "
    "softplus_backward mish_backward hardswish _fused_dropout _masked_scale "
    "mse_loss mse_loss_backward l1_loss smooth_l1_loss smooth_l1_loss_backward huber_loss "
    "binary_cross_entropy binary_cross_entropy_backward binary_cross_entropy_with_logits kl_div "
    "glu glu_backward prelu _prelu_kernel softshrink_backward log_sigmoid_forward "
    "log_sigmoid_backward masked_scatter_backward addcmul_ addcdiv_ polar complex cross"
).split()
_TRUTHS: Final = (
    "eq ne lt le gt ge isfinite isinf isnan isneginf isposinf logical_and logical_not logical_or "
    "logical_xor signbit equal is_nonzero"
).split()
_BOTH: Final = frozenset({"max", "min"})
"""Pointwise with two tensors, reductions with one; told by `reduction` unless a second is there."""


def _pointwise(inputs: Inputs, truth: bool = False) -> Work:
    tensors = inputs.tensors()
    if not tensors:
        raise ShapeError("no tensors")
    shape = _broadcast([tensor.shape for tensor in tensors])
    kind = _widest(tensors)
    read = sum(tensor.stored_bytes for tensor in tensors)
    dims = Elements(prod(shape), len(tensors))
    return pointwise(dims, kind, read, DType.BOOL if truth else kind)


def _broadcast(shapes: list[tuple[int, ...]]) -> tuple[int, ...]:
    rank = max(map(len, shapes))
    padded = [(1,) * (rank - len(shape)) + shape for shape in shapes]
    return tuple(max(sizes) if min(sizes) else 0 for sizes in zip(*padded))


def _widest(tensors: list[Tensor]) -> DType:
    """Tensors of no dimension (scalars) do not widen the result."""
    given = [tensor for tensor in tensors if tensor.shape] or tensors
    return max((t.dtype for t in given), key=lambda kind: (kind in _FLOATS, element_bytes(kind)))


_FLOATS: Final = frozenset(
    {DType.FLOAT64, DType.FLOAT32, DType.FLOAT16, DType.BFLOAT16, DType.FLOAT8, DType.COMPLEX64}
)


def _each(inputs: Inputs) -> Work:
    """One operation on every tensor of the lists."""
    lists = inputs.lists()
    if not lists:
        raise ShapeError("lists too long for the trace to tell")
    count = sum(tensor.count for tensor in lists[0])
    read = sum(tensor.stored_bytes for group in lists for tensor in group)
    return pointwise(Elements(count, len(lists)), lists[0][0].dtype, read)


_FOREACH: Final = (
    "add sub mul div addcmul addcdiv sqrt lerp neg exp pow maximum minimum clamp_min clamp_max "
    "abs reciprocal rsqrt sign"
).split()

RULES: Final[Mapping[str, Callable[[Inputs], Work]]] = {
    **{f"aten::{name}": _pointwise for name in (*_TAGGED, *_BACKWARD) if name not in _BOTH},
    **{f"aten::{name}_": _pointwise for name in _TAGGED},
    **{f"aten::{name}": partial(_pointwise, truth=True) for name in _TRUTHS},
    **{f"aten::{name}_": partial(_pointwise, truth=True) for name in _TRUTHS},
    **{f"aten::_foreach_{name}": _each for name in _FOREACH},
    **{f"aten::_foreach_{name}_": _each for name in _FOREACH},
}
