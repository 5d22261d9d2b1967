"""The type of each operation's result; a breach is a `WeaveError` that says what to write instead.

One function an op, found by table. Rules speak of types only, so that a transformation re-types
what it rewrites with the very rules that checked the user's program.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from paceline.errors import PacelineError
from paceline.graph import DType
from paceline.weave import ops
from paceline.weave.layout import (
    FLOATS,
    ITEM_BYTES,
    Group,
    Layout,
    Partial,
    Reduction,
    Replicated,
    Shape,
    Sliced,
    TensorType,
)


class WeaveError(PacelineError):
    """A program breaks the language's rules, or asks a back end for what it cannot do."""


def result_type(op: ops.WeaveOp, args: tuple[TensorType, ...]) -> TensorType:
    """Type of `op` applied to operands of these types."""
    rule = _RULES.get(type(op))
    if rule is None:
        raise WeaveError(f"{op.word} takes no operands; it is declared, not applied")
    return rule(op, *args)


def one_group(args: tuple[TensorType, ...]) -> Group | None:
    """The group all operands live in; constants live everywhere."""
    groups = {t.group for t in args if t.group is not None}
    if len(groups) > 1:
        shown = " and ".join(sorted(str(g) for g in groups))
        raise WeaveError(f"operands live in {shown}; hand one over with Send first")
    return groups.pop() if groups else None


# Pointwise -----------------------------------------------------------------------------------


def _unary(op: ops.Unary, x: TensorType) -> TensorType:
    if isinstance(x.layout, Partial) and op.kind is not ops.UnaryKind.NEG:
        raise _partial(op.kind.value, x)
    if isinstance(x.layout, Partial) and x.layout.op is not Reduction.SUM:
        raise _partial(op.kind.value, x)
    if x.dtype not in FLOATS and op.kind not in (ops.UnaryKind.NEG, ops.UnaryKind.ABS):
        raise WeaveError(f"{op.kind.value} needs floating point, got {x}; Cast it first")
    return replace(x, dtype=DType.BOOL) if op.kind is ops.UnaryKind.IS_FINITE else x


def _cast(op: ops.Cast, x: TensorType) -> TensorType:
    """Casting Partial parts rounds each before the sum: the program as written says so."""
    if op.dtype not in ITEM_BYTES:
        raise WeaveError(f"Cast to {op.dtype.name}; allowed: {_names(ITEM_BYTES)}")
    if isinstance(x.layout, Partial) and not (x.dtype in FLOATS and op.dtype in FLOATS):
        raise WeaveError(f"Cast of {x} to {op.dtype.name} does not keep the sum; AllReduce first")
    return replace(x, dtype=op.dtype)


_COMPARE = (ops.BinaryKind.GREATER, ops.BinaryKind.LESS)


def _binary(op: ops.Binary, a: TensorType, b: TensorType) -> TensorType:
    group, shape, dtype = one_group((a, b)), broadcast_shape((a, b)), joint_dtype((a, b))
    if isinstance(a.layout, Partial) or isinstance(b.layout, Partial):
        layout: Layout = _linear(op.kind, a, b)
    else:
        layout = joint_layout((a, b), shape)
    return TensorType(shape, DType.BOOL if op.kind in _COMPARE else dtype, layout, group)


def _linear(kind: ops.BinaryKind, a: TensorType, b: TensorType) -> Layout:
    """Partial operands: only what the sum over ranks lets through."""
    summing = {t.layout.op for t in (a, b) if isinstance(t.layout, Partial)} == {Reduction.SUM}
    if summing and a.layout == b.layout and kind in (ops.BinaryKind.ADD, ops.BinaryKind.SUB):
        if a.shape == b.shape:
            return a.layout
        raise WeaveError(f"{kind.value} of Partial {a} and {b}: shapes must be equal")
    scales = isinstance(b.layout, Replicated) and kind in (ops.BinaryKind.MUL, ops.BinaryKind.DIV)
    if summing and scales:
        return a.layout
    if summing and isinstance(a.layout, Replicated) and kind is ops.BinaryKind.MUL:
        return b.layout
    raise _partial(kind.value, a, b)


def _ite(op: ops.Ite, condition: TensorType, a: TensorType, b: TensorType) -> TensorType:
    args = (condition, a, b)
    if condition.dtype is not DType.BOOL:
        raise WeaveError(f"Ite needs a condition of BOOL, got {condition}; compare with > or <")
    if any(isinstance(t.layout, Partial) for t in args):
        raise _partial("ite", *args)
    shape = broadcast_shape(args)
    return TensorType(shape, joint_dtype((a, b)), joint_layout(args, shape), one_group(args))


def _mul_add(op: ops.MulAdd, *args: TensorType) -> TensorType:
    if any(isinstance(t.layout, Partial) for t in args):
        raise _partial("mul_add", *args)
    shape = broadcast_shape(args)
    return TensorType(shape, joint_dtype(args), joint_layout(args, shape), one_group(args))


def broadcast_shape(args: tuple[TensorType, ...]) -> Shape:
    """Shapes aligned from the right; an extent of 1 stretches."""
    rank = max(len(t.shape) for t in args)
    padded = [(1,) * (rank - len(t.shape)) + t.shape for t in args]
    found = []
    for extents in zip(*padded):
        wide = {e for e in extents if e != 1}
        if len(wide) > 1:
            shown = " and ".join(str(list(t.shape)) for t in args)
            raise WeaveError(f"shapes {shown} do not fit together from the right")
        found.append(wide.pop() if wide else 1)
    return tuple(found)


def joint_dtype(args: tuple[TensorType, ...]) -> DType:
    """Tensors must agree; numbers (shape ()) follow the tensors, constants follow everything."""
    tensors = {t.dtype for t in args if not t.is_scalar}
    if len(tensors) > 1:
        raise WeaveError(f"element types {_names(tensors)} differ; Cast one of them")
    if tensors:
        return tensors.pop()
    held = [t.dtype for t in args if t.group is not None] or [t.dtype for t in args]
    return max(held, key=lambda d: (d in FLOATS, ITEM_BYTES[d]))


def joint_layout(args: tuple[TensorType, ...], shape: Shape) -> Layout:
    """Sliced where every operand that spans the sliced dim is sliced along it, else Replicated."""
    dims = {t.layout.dim + len(shape) - len(t.shape) for t in args if isinstance(t.layout, Sliced)}
    if not dims:
        return Replicated()
    if len(dims) > 1:
        raise WeaveError(f"operands are sliced along dims {sorted(dims)}; use AllToAll on one")
    dim = dims.pop()
    for t in args:
        if isinstance(t.layout, Replicated) and spans(t.shape, shape, dim):
            raise WeaveError(
                f"mixed layouts: {t} meets a tensor sliced along dim {dim}; "
                f"write Slice(it, {dim - len(shape) + len(t.shape)}) or AllGather the other"
            )
        if isinstance(t.layout, Sliced) and t.shape[t.layout.dim] != shape[dim]:
            raise WeaveError(f"{t} cannot stretch along its sliced dim to {list(shape)}")
    return Sliced(dim)


def spans(own: Shape, shape: Shape, dim: int) -> bool:
    """Does an operand of shape `own`, aligned from the right, vary along `dim` of `shape`?"""
    at = dim - len(shape) + len(own)
    return at >= 0 and own[at] == shape[dim]


# Other computation ---------------------------------------------------------------------------


def _dropout(op: ops.Dropout, x: TensorType, seed: TensorType) -> TensorType:
    if not 0.0 <= op.p < 1.0:
        raise WeaveError(f"Dropout with p = {op.p}; allowed: 0 <= p < 1")
    if isinstance(x.layout, Partial):
        raise _partial("dropout", x)
    if x.dtype not in FLOATS:
        raise WeaveError(f"Dropout of {x}: needs floating point; Cast it first")
    if not seed.is_scalar or isinstance(seed.layout, Partial):
        raise WeaveError(f"Dropout takes one Replicated number as seed, got {seed}")
    return replace(x, group=one_group((x, seed)))


def _reduce(op: ops.Reduce, x: TensorType) -> TensorType:
    if isinstance(x.layout, Partial):
        raise _partial(op.kind.value, x)
    if op.segments is not None:
        return _segmented(op, x, op.segments)
    if op.dim is None:
        return replace(x, shape=(), dtype=_wide(x.dtype), layout=_across(op, x, whole=True))
    if not 0 <= op.dim < len(x.shape):
        raise WeaveError(f"{op.kind.value} along dim {op.dim} of {x}")
    shape = (*x.shape[: op.dim], 1, *x.shape[op.dim + 1 :])
    cut = isinstance(x.layout, Sliced) and x.layout.dim == op.dim
    return replace(x, shape=shape, dtype=_wide(x.dtype), layout=_across(op, x, whole=cut))


def _segmented(op: ops.Reduce, x: TensorType, segments: tuple[int, ...]) -> TensorType:
    if len(x.shape) != 1 or sum(segments) != x.size or min(segments, default=1) < 1:
        raise WeaveError(f"segments {segments} must be positive and add up to the vector {x}")
    layout = _across(op, x, whole=True)
    return replace(x, shape=(len(segments),), dtype=_wide(x.dtype), layout=layout)


def _across(op: ops.Reduce, x: TensorType, *, whole: bool) -> Layout:
    """A reduction that swallows the sliced dim leaves parts that still must be combined."""
    cut = whole and isinstance(x.layout, Sliced)
    return Partial(ops.ACROSS_RANKS[op.kind]) if cut else x.layout


def _wide(dtype: DType) -> DType:
    """Reductions of 16-bit numbers are held in 32."""
    return DType.FLOAT32 if dtype in (DType.FLOAT16, DType.BFLOAT16) else dtype


def _repeat(op: ops.Repeat, x: TensorType) -> TensorType:
    if x.shape != (len(op.segments),) or not isinstance(x.layout, Replicated):
        raise WeaveError(f"Repeat of {x}: needs Replicated [{len(op.segments)}], one a segment")
    return replace(x, shape=(sum(op.segments),))


def _matmul(op: ops.MatMul, a: TensorType, b: TensorType) -> TensorType:
    if len(b.shape) != 2 or not a.shape or a.shape[-1] != b.shape[0] or a.dtype != b.dtype:
        raise WeaveError(f"MatMul of {a} and {b}: needs A[..., K] and B[K, N] of one element type")
    shape = (*a.shape[:-1], b.shape[1])
    return TensorType(shape, a.dtype, _matmul_layout(a, b), one_group((a, b)))


def _matmul_layout(a: TensorType, b: TensorType) -> Layout:
    inner = len(a.shape) - 1
    if a.layout == Sliced(inner) and b.layout == Sliced(0):
        return Partial(Reduction.SUM)
    linear = isinstance(a.layout, Replicated | Sliced) or a.layout == Partial(Reduction.SUM)
    if isinstance(b.layout, Replicated) and a.layout != Sliced(inner) and linear:
        return a.layout
    if isinstance(a.layout, Replicated) and b.layout == Sliced(1):
        return Sliced(inner)
    raise WeaveError(
        f"MatMul of {a} and {b}: allowed are Replicated or rows sliced times Replicated, "
        f"Replicated times Sliced(1), and Sliced({inner}) times Sliced(0), which gives Partial"
    )


def _slice(op: ops.Slice, x: TensorType) -> TensorType:
    if not isinstance(x.layout, Replicated):
        raise WeaveError(f"Slice of {x}: needs Replicated; use ReduceScatter or AllToAll")
    return replace(x, layout=_sliced(op.dim, x))


def _update(op: ops.Update, t: TensorType, value: TensorType) -> TensorType:
    if (t.shape, t.dtype) != (value.shape, value.dtype):
        raise WeaveError(f"Update of {t} with {value}: shape and element type must be equal")
    if t.layout != value.layout:
        raise WeaveError(f"Update of {t} with {value}: layouts differ; Slice or AllGather it")
    return replace(t, group=one_group((t, value)))


# Communication -------------------------------------------------------------------------------


def _all_reduce(op: ops.AllReduce, x: TensorType) -> TensorType:
    return replace(_needs_partial(op, x), layout=Replicated())


def _reduce_scatter(op: ops.ReduceScatter, x: TensorType) -> TensorType:
    return replace(_needs_partial(op, x), layout=_sliced(op.dim, x))


def _reduce_to(op: ops.ReduceTo, x: TensorType) -> TensorType:
    layout = _needs_partial(op, x).layout
    assert isinstance(layout, Partial)
    return replace(x, layout=Partial(layout.op, _member(op.root, x)))


def _broadcast(op: ops.Broadcast, x: TensorType) -> TensorType:
    if not isinstance(x.layout, Partial) or x.layout.root != _member(op.root, x):
        raise WeaveError(f"Broadcast from rank {op.root} of {x}: needs what Reduce to it gives")
    return replace(x, layout=Replicated())


def _all_gather(op: ops.AllGather, x: TensorType) -> TensorType:
    if not isinstance(x.layout, Sliced):
        raise WeaveError(f"AllGather of {x}: needs Sliced")
    return replace(x, layout=Replicated())


def _all_to_all(op: ops.AllToAll, x: TensorType) -> TensorType:
    if not isinstance(x.layout, Sliced) or x.layout.dim == op.dim:
        raise WeaveError(f"AllToAll to dim {op.dim} of {x}: needs Sliced along another dim")
    return replace(x, layout=_sliced(op.dim, x))


def _send(op: ops.Send, x: TensorType) -> TensorType:
    if x.group is None or x.group.size != op.to.size or x.group == op.to:
        raise WeaveError(f"Send of {x} from {x.group} to {op.to}: needs another group of that size")
    return replace(x, group=op.to)


def _needs_partial(op: ops.WeaveOp, x: TensorType) -> TensorType:
    if not isinstance(x.layout, Partial):
        raise WeaveError(f"{op.word} of {x}: needs Partial; its values are already combined")
    return x


def _sliced(dim: int, x: TensorType) -> Sliced:
    if not 0 <= dim < len(x.shape):
        raise WeaveError(f"{x} has no dim {dim} to slice; give 0 to {len(x.shape) - 1}")
    if x.group is None:
        raise WeaveError("a constant belongs to no group and cannot be sliced")
    return Sliced(dim)


def _member(root: int, x: TensorType) -> int:
    size = x.group.size if x.group else 1
    if not 0 <= root < size:
        raise WeaveError(f"root {root} is not in {x.group}; give 0 to {size - 1}")
    return root


def _partial(word: str, *args: TensorType) -> WeaveError:
    shown = ", ".join(str(t) for t in args)
    return WeaveError(
        f"{word} of {shown}: a Partial tensor lets only sums of its kind and scaling by Replicated "
        "values through; AllReduce or ReduceScatter it first"
    )


def _names(dtypes: Any) -> str:
    return ", ".join(sorted(d.name for d in dtypes))


_RULES: dict[type[ops.WeaveOp], Callable[..., TensorType]] = {
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
    ops.AllReduce: _all_reduce,
    ops.ReduceScatter: _reduce_scatter,
    ops.AllGather: _all_gather,
    ops.ReduceTo: _reduce_to,
    ops.Broadcast: _broadcast,
    ops.AllToAll: _all_to_all,
    ops.Send: _send,
}
