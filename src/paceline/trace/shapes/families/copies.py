"""Copies, casts, fills and joins of tensors."""

from collections.abc import Callable, Mapping
from functools import partial
from math import prod
from typing import Final

from paceline.graph import DType
from paceline.graph.work import Elements, Family, Work, copied, moved
from paceline.trace.shapes.inputs import Inputs, ShapeError, Tensor


def _copy(inputs: Inputs) -> Work:
    """Into the first from the second, of which either may be expanded."""
    target, source = inputs.tensor(0), inputs.tensor(1)
    return Work(
        Family.COPY,
        source.dtype,
        Elements(target.count),
        0,
        source.stored_bytes,
        target.stored_bytes,
    )


def _cloned(inputs: Inputs) -> Work:
    source = inputs.tensor(0)
    return copied(source.count, source.dtype)


def _filled(inputs: Inputs) -> Work:
    return moved(0, inputs.tensor(0).stored_bytes)


def _joined(inputs: Inputs) -> Work:
    """Each tensor is read once and written once."""
    parts = inputs.tensors()
    if not parts:
        raise ShapeError("a list too long for the trace to tell")
    whole = sum(tensor.stored_bytes for tensor in parts)
    count = sum(tensor.count for tensor in parts)
    return Work(Family.COPY, parts[0].dtype, Elements(count, 1), 0, whole, whole)


def _repeated(inputs: Inputs) -> Work:
    source = inputs.tensor(0)
    times = prod(inputs.numbers(1)) or 1
    return Work(
        Family.COPY,
        source.dtype,
        Elements(source.count * times),
        0,
        source.stored_bytes,
        source.stored_bytes * times,
    )


def _made(inputs: Inputs, place: int, dtype: DType) -> Work:
    """A tensor of given sizes, written once."""
    count = prod(inputs.numbers(place)) if inputs.numbers(place) else 1
    return copied(count, dtype)


def _random(inputs: Inputs) -> Work:
    target: Tensor = inputs.tensor(0)
    return Work(
        Family.POINTWISE, target.dtype, Elements(target.count, 0), target.count, 0,
        target.stored_bytes,
    )  # fmt: skip


_CLONES: Final = (
    "clone contiguous _to_copy flip roll constant_pad_nd reflection_pad2d replication_pad2d tril "
    "triu _reshape_copy unfold_backward as_strided_copy split_with_sizes_copy tril_ triu_ "
    "_conj_physical slice_backward select_backward _pin_memory diag_embed"
).split()
_RANDOM: Final = "normal_ uniform_ random_ bernoulli_ exponential_ native_dropout dropout".split()

RULES: Final[Mapping[str, Callable[[Inputs], Work]]] = {
    "aten::copy_": _copy,
    "aten::_foreach_copy_": _joined,
    **{f"aten::{name}": _cloned for name in _CLONES},
    **{f"aten::{name}": _random for name in _RANDOM},
    "aten::fill_": _filled,
    "aten::zero_": _filled,
    "aten::_foreach_zero_": _filled,
    "aten::cat": _joined,
    "aten::stack": _joined,
    "aten::_chunk_cat": _joined,
    "aten::repeat": _repeated,
    "aten::arange": partial(_made, place=0, dtype=DType.INT64),
    "fsdp::all_gather_copy_in": _joined,
    "fsdp::split_with_sizes_copy": _cloned,
    "fsdp::chunk_cat": _joined,
}
