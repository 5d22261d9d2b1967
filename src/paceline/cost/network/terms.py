"""What a call's time is a sum of, by its kind: a call, arithmetic, bytes.

    t = c_0 + c_1 arithmetic + c_2 bytes in + c_3 bytes out + c_4 weights + c_5 bytes beyond caches

each c at least 0 and of one kind of call on one machine. Arithmetic counts channels in whole
vectors of 16, since that is what a library computes.
"""

from collections.abc import Callable, Mapping
from enum import Enum
from typing import Final

import numpy as np
from numpy.typing import NDArray

from paceline.graph.work import Convolution, Family, Matrix, Recorded, Work

Terms = NDArray[np.float64]

VECTOR: Final = 16  # float32 values of the widest vector of today's processors
CACHE_BYTES: Final = 1 << 20
"""About a core's own cache. What is beyond it is a term of its own, with its own coefficient."""


class CallKind(Enum):
    """Kinds of calls that one set of coefficients describes; the value is the file format."""

    POINT = "1x1 convolution"
    DENSE = "convolution"
    GROUPED = "grouped convolution"
    DEPTHWISE = "depthwise convolution"
    MATRIX = "matrix product"
    NORM = "norm"
    POINTWISE = "pointwise"
    CURVED = "pointwise of exponentials"
    POOLING = "pooling"
    REDUCTION = "reduction"
    COPY = "copy"
    OTHER = "other"


_CURVED: Final = frozenset(
    f"aten::{name}{end}"
    for name in ("silu", "gelu", "sigmoid", "tanh", "exp", "mish", "softmax", "_softmax")
    for end in ("", "_")
)
_KINDS: Final[Mapping[Family, CallKind]] = {
    Family.MATRIX: CallKind.MATRIX,
    Family.NORM: CallKind.NORM,
    Family.BATCH_NORM: CallKind.NORM,
    Family.POINTWISE: CallKind.POINTWISE,
    Family.POOLING: CallKind.POOLING,
    Family.REDUCTION: CallKind.REDUCTION,
    Family.COPY: CallKind.COPY,
}


def kind_of(call: Recorded) -> CallKind:
    dims = call.work.dims
    if isinstance(dims, Convolution):
        return _convolution(dims)
    if call.operator in _CURVED:
        return CallKind.CURVED
    return _KINDS.get(call.work.family, CallKind.OTHER)


def terms_of(call: Recorded) -> Terms:
    """One figure for each coefficient of the call's kind."""
    return _TERMS.get(kind_of(call), _of_bytes)(call.work)


def _convolution(dims: Convolution) -> CallKind:
    if dims.groups == 1:
        return CallKind.POINT if dims.kernel == 1 else CallKind.DENSE
    alone = dims.groups == dims.channels_in
    return CallKind.DEPTHWISE if alone else CallKind.GROUPED


def _of_convolution(work: Work) -> Terms:
    dims = work.dims
    assert isinstance(dims, Convolution)
    a, b = _whole(dims.channels_in // dims.groups), _whole(dims.channels_out // dims.groups)
    arithmetic = 2.0 * dims.b * dims.size_out * dims.kernel * a * b * dims.groups
    weight = 4.0 * dims.channels_out * dims.channels_in // dims.groups * dims.kernel
    into = work.read_bytes - weight
    return _terms(
        arithmetic,
        arithmetic if dims.stride > 1 else 0.0,
        arithmetic / max(1.0, dims.size_out / VECTOR),
        into,
        work.written_bytes,
        weight,
        _beyond(weight),
        _beyond(into + work.written_bytes),
    )


def _of_depthwise(work: Work) -> Terms:
    dims = work.dims
    assert isinstance(dims, Convolution)
    channels = _whole(dims.channels_out)
    arithmetic = 2.0 * dims.b * dims.size_out * dims.kernel * channels
    both = work.size_bytes
    return _terms(arithmetic, work.read_bytes, work.written_bytes, _beyond(both), channels)


def _of_matrix(work: Work) -> Terms:
    dims = work.dims
    assert isinstance(dims, Matrix)
    arithmetic = 2.0 * dims.b * dims.m * _whole(dims.n) * dims.k
    return _terms(arithmetic, work.size_bytes, _beyond(work.size_bytes))


def _of_bytes(work: Work) -> Terms:
    return _terms(work.read_bytes, work.written_bytes, _beyond(work.size_bytes))


def _terms(*each: float) -> Terms:
    return np.array([1.0, *each], np.float64)


def _whole(channels: int) -> int:
    return -(-channels // VECTOR) * VECTOR


def _beyond(size_bytes: float) -> float:
    return max(0.0, size_bytes - CACHE_BYTES)


_TERMS: Final[Mapping[CallKind, Callable[[Work], Terms]]] = {
    CallKind.POINT: _of_convolution,
    CallKind.DENSE: _of_convolution,
    CallKind.GROUPED: _of_convolution,
    CallKind.DEPTHWISE: _of_depthwise,
    CallKind.MATRIX: _of_matrix,
}
