"""What works element by element: pointwise operators, copies and casts, optimizers."""

from typing import Final

from paceline.graph.kinds import DType
from paceline.graph.work.dimensions import Elements
from paceline.graph.work.sizes import bytes_of
from paceline.graph.work.work import Family, Work

_OPTIMIZER_FLOPS: Final = 5
"""Operations per element and tensor of state: between SGD with momentum and Adam."""


def pointwise(
    dims: Elements, dtype: DType, read_bytes: int | None = None, out: DType | None = None
) -> Work:
    """One operation per element. `read_bytes` where not all inputs are of that size and type."""
    read = bytes_of(dims.count * dims.inputs, dtype) if read_bytes is None else read_bytes
    written = bytes_of(dims.count, out or dtype)
    return Work(Family.POINTWISE, dtype, dims, dims.count, read, written)


def copied(count: int, dtype: DType, out: DType | None = None) -> Work:
    """A copy, or a cast where `out` is another type."""
    read, written = bytes_of(count, dtype), bytes_of(count, out or dtype)
    return Work(Family.COPY, dtype, Elements(count), 0, read, written)


def moved(read_bytes: int, written_bytes: int) -> Work:
    """Bytes of no known type: a memory copy, or a fill, which reads nothing."""
    dims = Elements(max(read_bytes, written_bytes))
    return Work(Family.COPY, DType.UINT8, dims, 0, read_bytes, written_bytes)


def optimizer(dims: Elements, dtype: DType, written: int) -> Work:
    """`inputs` tensors (parameter, gradient, states) are read, `written` of them written."""
    return Work(
        Family.OPTIMIZER,
        dtype,
        dims,
        flops=_OPTIMIZER_FLOPS * dims.count * max(written, 1),
        read_bytes=bytes_of(dims.count * dims.inputs, dtype),
        written_bytes=bytes_of(dims.count * written, dtype),
    )
