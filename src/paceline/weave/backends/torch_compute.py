"""What each computation does to one rank's part, in torch: the twin of `compute.py`."""

from collections.abc import Callable
from typing import Any

import torch

from paceline.graph import DType
from paceline.weave import ops
from paceline.weave.compute import ComputeContext
from paceline.weave.layout import Sliced, TensorType, slice_bounds
from paceline.weave.numbers import identity_of, keep_mask
from paceline.weave.rules import joint_dtype

TORCH = {
    DType.FLOAT64: torch.float64,
    DType.FLOAT32: torch.float32,
    DType.FLOAT16: torch.float16,
    DType.BFLOAT16: torch.bfloat16,
    DType.INT64: torch.int64,
    DType.INT32: torch.int32,
    DType.BOOL: torch.bool,
}
_HALF = (torch.float16, torch.bfloat16)


def local(op: ops.WeaveOp, at: ComputeContext, *operands: Any) -> Any:
    """One rank's part of an op's result, in its element type."""
    return _RULES[type(op)](op, at, *operands).to(TORCH[at.kind.dtype])


def narrow(kind: TensorType, index: int, whole: Any) -> Any:
    """The view of rank `index`'s part in a whole tensor."""
    if not isinstance(kind.layout, Sliced) or kind.group is None:
        return whole
    dim = kind.layout.dim
    start, end = slice_bounds(kind.shape[dim], kind.group.size, index)
    return whole.narrow(dim, start, end - start)


def wide(x: Any) -> Any:
    """16-bit numbers compute in 32."""
    return x.float() if x.dtype in _HALF else x


def _const(op: ops.Const, at: ComputeContext) -> Any:
    return torch.tensor(op.value, dtype=torch.float64)


_UNARY: dict[ops.UnaryKind, Callable[[Any], Any]] = {
    ops.UnaryKind.NEG: torch.neg,
    ops.UnaryKind.SQRT: torch.sqrt,
    ops.UnaryKind.ABS: torch.abs,
    ops.UnaryKind.EXP: torch.exp,
    ops.UnaryKind.TANH: torch.tanh,
    ops.UnaryKind.RELU: torch.relu,
    ops.UnaryKind.IS_FINITE: torch.isfinite,
}
_BINARY: dict[ops.BinaryKind, Callable[[Any, Any], Any]] = {
    ops.BinaryKind.ADD: torch.add,
    ops.BinaryKind.SUB: torch.sub,
    ops.BinaryKind.MUL: torch.mul,
    ops.BinaryKind.DIV: torch.div,
    ops.BinaryKind.POW: torch.pow,
    ops.BinaryKind.MAXIMUM: torch.maximum,
    ops.BinaryKind.MINIMUM: torch.minimum,
    ops.BinaryKind.GREATER: torch.gt,
    ops.BinaryKind.LESS: torch.lt,
}


def _unary(op: ops.Unary, at: ComputeContext, x: Any) -> Any:
    return _UNARY[op.kind](wide(x))


def _binary(op: ops.Binary, at: ComputeContext, a: Any, b: Any) -> Any:
    dtype = TORCH[joint_dtype(at.args)]
    compute = torch.float32 if dtype in _HALF else dtype
    return _BINARY[op.kind](a.to(compute), b.to(compute))


def _cast(op: ops.Cast, at: ComputeContext, x: Any) -> Any:
    return x


def _ite(op: ops.Ite, at: ComputeContext, condition: Any, a: Any, b: Any) -> Any:
    dtype = TORCH[at.kind.dtype]
    return torch.where(condition, a.to(dtype), b.to(dtype))


def _mul_add(op: ops.MulAdd, at: ComputeContext, *args: Any) -> Any:
    """addcmul contracts: torch's own kernels round it once."""
    dtype = TORCH[joint_dtype(at.args)]
    a, b, c = (x.to(torch.float32 if dtype in _HALF else dtype) for x in args)
    return torch.addcmul(c, a, b)


def _dropout(op: ops.Dropout, at: ComputeContext, x: Any, seed: Any) -> Any:
    whole = at.first + torch.arange(at.kind.size, device=x.device).view(at.kind.shape)
    kept = keep_mask(int(seed), op.site, narrow(at.kind, at.index, whole), op.p)
    return torch.where(kept, wide(x) * (1.0 / (1.0 - op.p)), 0.0)


def _reduce(op: ops.Reduce, at: ComputeContext, x: Any) -> Any:
    if op.segments is not None:
        parts = _segments(op.segments, at)
        return torch.stack([_fold(op.kind, x[a:b], None) for a, b in parts])
    return _fold(op.kind, x, op.dim)


def _segments(segments: tuple[int, ...], at: ComputeContext) -> list[tuple[int, int]]:
    """Where each segment lies in this rank's part."""
    start, (kind, *_) = 0, at.args
    if isinstance(kind.layout, Sliced) and kind.group is not None:
        start, _ = slice_bounds(kind.size, kind.group.size, at.index)
    found, first = [], 0
    for length in segments:
        found.append((max(first - start, 0), max(first + length - start, 0)))
        first += length
    return found


def _fold(kind: ops.ReduceKind, x: Any, dim: int | None) -> Any:
    if kind is ops.ReduceKind.SUM:
        return _sum(x, dim)
    if kind is ops.ReduceKind.SUM_SQUARES:
        return _sum(x.double().square() if x.is_floating_point() else x.square(), dim)
    empty = torch.tensor(identity_of(ops.ACROSS_RANKS[kind], x.is_floating_point()))
    pick = torch.amax if kind is ops.ReduceKind.MAX else torch.amin
    if x.numel() == 0:
        shape = [] if dim is None else [1 if i == dim else n for i, n in enumerate(x.shape)]
        return empty.to(x.device).expand(shape)
    return pick(x) if dim is None else pick(x, dim=dim, keepdim=True)


def _sum(x: Any, dim: int | None) -> Any:
    dtype = torch.float64 if x.is_floating_point() else torch.int64
    if dim is None:
        return torch.sum(x, dtype=dtype)
    return torch.sum(x, dim=dim, keepdim=True, dtype=dtype)


def _repeat(op: ops.Repeat, at: ComputeContext, x: Any) -> Any:
    return torch.repeat_interleave(x, torch.tensor(op.segments, device=x.device))


def _matmul(op: ops.MatMul, at: ComputeContext, a: Any, b: Any) -> Any:
    return torch.matmul(a, b)


def _slice(op: ops.Slice, at: ComputeContext, x: Any) -> Any:
    return narrow(at.kind, at.index, x)


_RULES: dict[type[ops.WeaveOp], Callable[..., Any]] = {
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
}
