"""Sums, means, extremes and scans over some of a tensor's dimensions."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from math import prod
from typing import Final

from paceline.graph import DType
from paceline.graph.work import Rows, Work, reduction
from paceline.trace.shapes.inputs import Inputs, Tensor

_REDUCED: Final = (
    "sum mean amax amin max min argmax argmin prod any all var std var_mean std_mean norm "
    "linalg_vector_norm logsumexp nansum count_nonzero aminmax median _fused_moving_avg"
).split()
_SCANS: Final = "cumsum cumsum_ cumprod cummax cummin logcumsumexp _cummax_helper".split()
_TRUTHS: Final = frozenset({"aten::any", "aten::all"})


def _reduced(tensor: Tensor, dims: tuple[int, ...]) -> Rows:
    """Over the named dimensions, or over all where none is."""
    rank = len(tensor.shape)
    named = [tensor.shape[d] for d in dims if -rank <= d < rank]
    columns = prod(named) if named else tensor.count
    return Rows(tensor.count // max(columns, 1), columns)


def _rule(inputs: Inputs, place: int, truth: bool) -> Work:
    tensor = inputs.tensor(0)
    dims = _reduced(tensor, inputs.numbers(place))
    work = reduction(dims, tensor.dtype, DType.BOOL if truth else None)
    return replace(work, read_bytes=tensor.stored_bytes)


def _scan(inputs: Inputs) -> Work:
    tensor = inputs.tensor(0)
    columns = tensor.shape[-1] if tensor.shape else 1
    work = reduction(Rows(tensor.count // max(columns, 1), columns), tensor.dtype)
    return replace(work, written_bytes=tensor.stored_bytes)


def _norms(inputs: Inputs) -> Work:
    """One norm for each tensor of a list."""
    given = inputs.lists()[0] if inputs.lists() else tuple(inputs.tensors())
    whole = sum(tensor.count for tensor in given)
    dtype = given[0].dtype if given else DType.NONE
    return reduction(Rows(len(given), whole // max(len(given), 1)), dtype)


RULES: Final[Mapping[str, Callable[[Inputs], Work]]] = {
    **{
        f"aten::{name}": partial(
            _rule, place=2 if "norm" in name else 1, truth=f"aten::{name}" in _TRUTHS
        )
        for name in _REDUCED
    },
    **{f"aten::{name}": _scan for name in _SCANS},
    "aten::_foreach_norm": _norms,
}
