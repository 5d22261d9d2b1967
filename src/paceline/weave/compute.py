"""What each computation does to the part that one rank holds; `interpreter.py` runs all ranks.

Results come in any precision at least that of the element type; `local` rounds them to it.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from paceline.weave import ops
from paceline.weave.layout import Reduction, Sliced, TensorType, slice_bounds
from paceline.weave.numbers import Array, identity, keep_mask, load, mul_add, store
from paceline.weave.rules import joint_dtype


@dataclass(frozen=True)
class ComputeContext:
    """Where a computation stands: type of the result, of the operands, the rank's index, and,
    where these are rows of something larger, the position of their first element in it."""

    kind: TensorType
    args: tuple[TensorType, ...]
    index: int = 0
    first: int = 0


def local(op: ops.WeaveOp, at: ComputeContext, *operands: Array) -> Array:
    """One rank's part of an op's result."""
    with np.errstate(all="ignore"):
        return store(_RULES[type(op)](op, at, *operands), at.kind.dtype)


def cut(kind: TensorType, index: int) -> tuple[slice, ...]:
    """Where rank `index`'s part lies in the global tensor."""
    if not isinstance(kind.layout, Sliced) or kind.group is None:
        return ()
    start, end = slice_bounds(kind.shape[kind.layout.dim], kind.group.size, index)
    return (*[slice(None)] * kind.layout.dim, slice(start, end))


def global_index(kind: TensorType, index: int) -> Array:
    """Row-major position in the global tensor of each element that rank `index` holds."""
    whole = np.arange(kind.size, dtype=np.int64).reshape(kind.shape)
    return whole[cut(kind, index)]


_UNARY: dict[ops.UnaryKind, Callable[[Any], Any]] = {
    ops.UnaryKind.NEG: np.negative,
    ops.UnaryKind.SQRT: np.sqrt,
    ops.UnaryKind.ABS: np.abs,
    ops.UnaryKind.EXP: np.exp,
    ops.UnaryKind.TANH: np.tanh,
    ops.UnaryKind.RELU: lambda x: np.maximum(x, x.dtype.type(0)),
    ops.UnaryKind.IS_FINITE: np.isfinite,
}
_BINARY: dict[ops.BinaryKind, Callable[[Any, Any], Any]] = {
    ops.BinaryKind.ADD: np.add,
    ops.BinaryKind.SUB: np.subtract,
    ops.BinaryKind.MUL: np.multiply,
    ops.BinaryKind.DIV: np.true_divide,
    ops.BinaryKind.POW: np.power,
    ops.BinaryKind.MAXIMUM: np.maximum,
    ops.BinaryKind.MINIMUM: np.minimum,
    ops.BinaryKind.GREATER: np.greater,
    ops.BinaryKind.LESS: np.less,
}


def _const(op: ops.Const, at: ComputeContext) -> Array:
    return np.asarray(op.value)


def _unary(op: ops.Unary, at: ComputeContext, x: Array) -> Array:
    return np.asarray(_UNARY[op.kind](load(x, at.args[0].dtype)))


def _binary(op: ops.Binary, at: ComputeContext, a: Array, b: Array) -> Array:
    """In the type that operations on the tensors compute in; numbers are rounded to that."""
    dtype = joint_dtype(at.args)
    return np.asarray(_BINARY[op.kind](load(a, dtype), load(b, dtype)))


def _cast(op: ops.Cast, at: ComputeContext, x: Array) -> Array:
    return x


def _ite(op: ops.Ite, at: ComputeContext, condition: Array, a: Array, b: Array) -> Array:
    return np.where(condition, a, b)


def _mul_add(op: ops.MulAdd, at: ComputeContext, *args: Array) -> Array:
    dtype = joint_dtype(at.args)
    return mul_add(*(load(x, dtype) for x in args))


def _dropout(op: ops.Dropout, at: ComputeContext, x: Array, seed: Array) -> Array:
    index = at.first + global_index(at.kind, at.index)
    scale = load(x, at.kind.dtype).dtype.type(1.0 / (1.0 - op.p))
    kept = keep_mask(int(seed), op.site, index, op.p)
    return np.asarray(np.where(kept, load(x, at.kind.dtype) * scale, scale.dtype.type(0)))


def _reduce(op: ops.Reduce, at: ComputeContext, x: Array) -> Array:
    wide = x.astype(np.float64) if x.dtype.kind == "f" else x
    if op.kind is ops.ReduceKind.SUM_SQUARES:
        wide = wide * wide
    combine = _FOLD[ops.ACROSS_RANKS[op.kind]]
    if op.segments is None:
        return np.asarray(combine(wide, axis=op.dim, keepdims=op.dim is not None))
    start = 0
    if isinstance(at.args[0].layout, Sliced) and at.args[0].group is not None:
        start, _ = slice_bounds(at.args[0].size, at.args[0].group.size, at.index)
    return _by_segment(wide, op.segments, start, combine)


def _by_segment(
    x: Array, segments: tuple[int, ...], start: int, combine: Callable[..., Any]
) -> Array:
    """Fold what lies of each segment in x, whose first element is global element `start`."""
    ends = np.cumsum(segments)
    bounds = [(max(e - s - start, 0), max(e - start, 0)) for s, e in zip(segments, ends)]
    return np.asarray([combine(x[a:b], axis=None, keepdims=False) for a, b in bounds])


def _fold_sum(x: Array, *, axis: int | None, keepdims: bool) -> Any:
    return np.sum(x, axis=axis, keepdims=keepdims)


def _fold_max(x: Array, *, axis: int | None, keepdims: bool) -> Any:
    return np.max(x, axis=axis, keepdims=keepdims, initial=identity(Reduction.MAX, x.dtype))


def _fold_min(x: Array, *, axis: int | None, keepdims: bool) -> Any:
    return np.min(x, axis=axis, keepdims=keepdims, initial=identity(Reduction.MIN, x.dtype))


_FOLD: dict[Reduction, Callable[..., Any]] = {
    Reduction.SUM: _fold_sum,
    Reduction.MAX: _fold_max,
    Reduction.MIN: _fold_min,
}


def _repeat(op: ops.Repeat, at: ComputeContext, x: Array) -> Array:
    return np.repeat(x, op.segments)


def _matmul(op: ops.MatMul, at: ComputeContext, a: Array, b: Array) -> Array:
    return np.asarray(np.matmul(a.astype(np.float64), b.astype(np.float64)))


def _slice(op: ops.Slice, at: ComputeContext, x: Array) -> Array:
    return x[cut(at.kind, at.index)]


def _update(op: ops.Update, at: ComputeContext, target: Array, value: Array) -> Array:
    return value.copy()


_RULES: dict[type[ops.WeaveOp], Callable[..., Array]] = {
    ops.Const: _const,
    ops.Unary: _unary,
    ops.Binary: _binary,
    ops.Cast: _cast,
    ops.Ite: _ite,
    ops.MulAdd: _mul_add,
    ops.Dropout: _dropout,
    ops.Reduce: _reduce,
    ops.Repeat: _repeat,
    ops.MatMul: _matmul,
    ops.Slice: _slice,
    ops.Update: _update,
}
