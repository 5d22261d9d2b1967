"""What works row by row: normalisations, softmax, losses, reductions, pooling, embeddings.

Operations are counted per element as the formula has them, for the arithmetic never decides here:
the bytes do.
"""

from dataclasses import dataclass
from typing import Final

from paceline.graph.kinds import DType
from paceline.graph.work.dimensions import Rows
from paceline.graph.work.sizes import bytes_of
from paceline.graph.work.work import Family, Way, Work

_NORM_FLOPS: Final = {Way.FORWARD: 8, Way.BACKWARD: 14}
"""Mean, variance, scale and shift; their gradients."""
_SOFTMAX_FLOPS: Final = {Way.FORWARD: 5, Way.BACKWARD: 4}
"""Maximum, difference, exponent, sum, quotient."""


@dataclass(frozen=True)
class _Passes:
    """How many tensors of the rows' size are read and written."""

    reads: int
    writes: int


def norm(dims: Rows, dtype: DType, way: Way = Way.FORWARD, *, affine: int = 2) -> Work:
    """`affine`: vectors of a row's length that scale and shift: 2 for layer norm, 1 for RMS."""
    passes = _Passes(1, 1) if way is Way.FORWARD else _Passes(2, 1)
    work = _rows(Family.NORM, dims, dtype, passes, _NORM_FLOPS[way], way)
    vectors = bytes_of(affine * dims.columns, dtype)
    written = work.written_bytes + (vectors if way is Way.BACKWARD else 0)
    return Work(work.family, dtype, dims, work.flops, work.read_bytes + vectors, written, way)


def batch_norm(dims: Rows, dtype: DType, way: Way = Way.FORWARD) -> Work:
    """A row is a channel: its places in all images of the batch."""
    passes = _Passes(1, 1) if way is Way.FORWARD else _Passes(2, 1)
    return _rows(Family.BATCH_NORM, dims, dtype, passes, _NORM_FLOPS[way], way)


def softmax(dims: Rows, dtype: DType, way: Way = Way.FORWARD, out: DType | None = None) -> Work:
    """Also of its logarithm."""
    passes = _Passes(1, 1) if way is Way.FORWARD else _Passes(2, 1)
    return _rows(Family.SOFTMAX, dims, dtype, passes, _SOFTMAX_FLOPS[way], way, out)


def loss(dims: Rows, dtype: DType, way: Way = Way.FORWARD) -> Work:
    """One figure per row is read or, backward, a row of gradients is written."""
    picked = bytes_of(dims.rows, dtype) + bytes_of(dims.rows, DType.INT64)
    whole = bytes_of(dims.rows * dims.columns, dtype)
    written = whole if way is Way.BACKWARD else bytes_of(1, dtype)
    return Work(Family.LOSS, dtype, dims, dims.rows, picked, written, way)


def reduction(dims: Rows, dtype: DType, out: DType | None = None) -> Work:
    """One result per row."""
    whole = dims.rows * dims.columns
    written = bytes_of(dims.rows, out or dtype)
    return Work(Family.REDUCTION, dtype, dims, whole, bytes_of(whole, dtype), written)


def pooling(dims: Rows, dtype: DType, way: Way = Way.FORWARD) -> Work:
    """One result per row, whose elements are those of its window."""
    whole, results = bytes_of(dims.rows * dims.columns, dtype), bytes_of(dims.rows, dtype)
    read, written = (whole, results) if way is Way.FORWARD else (results, whole)
    return Work(Family.POOLING, dtype, dims, dims.rows * dims.columns, read, written, way)


def embedding(dims: Rows, dtype: DType, way: Way = Way.FORWARD) -> Work:
    """`rows` indices, each of which picks (or backward adds to) a row of `columns`."""
    whole = bytes_of(dims.rows * dims.columns, dtype)
    flops = dims.rows * dims.columns if way is Way.BACKWARD else 0
    indices = bytes_of(dims.rows, DType.INT64)
    return Work(Family.EMBEDDING, dtype, dims, flops, whole + indices, whole, way)


def _rows(
    family: Family,
    dims: Rows,
    dtype: DType,
    passes: _Passes,
    flops: int,
    way: Way,
    out: DType | None = None,
) -> Work:
    count = dims.rows * dims.columns
    return Work(
        family,
        dtype,
        dims,
        flops=flops * count,
        read_bytes=passes.reads * bytes_of(count, dtype),
        written_bytes=passes.writes * bytes_of(count, out or dtype),
        way=way,
    )
