"""Products of matrices, one, several of one shape, or rows that each pick one of several."""

from paceline.graph.kinds import DType
from paceline.graph.work.dimensions import Grouped, Matrix
from paceline.graph.work.sizes import bytes_of
from paceline.graph.work.work import Family, Work


def matrix(
    dims: Matrix, dtype: DType, out: DType | None = None, *, added_elements: int = 0
) -> Work:
    """`out` is the results' type where it is another; `added_elements` what is added to them."""
    b, m, n, k = dims.b, dims.m, dims.n, dims.k
    result = out or dtype
    return Work(
        Family.MATRIX,
        dtype,
        dims,
        flops=2 * b * m * n * k,
        read_bytes=bytes_of(b * (m * k + k * n), dtype) + bytes_of(added_elements, result),
        written_bytes=bytes_of(b * m * n, result),
    )


def grouped(dims: Grouped, dtype: DType, out: DType | None = None) -> Work:
    """Every group's matrix is read once, as where each of them has rows."""
    return Work(
        Family.GROUPED_MATRIX,
        dtype,
        dims,
        flops=2 * dims.m * dims.n * dims.k,
        read_bytes=bytes_of(dims.m * dims.k + dims.groups * dims.k * dims.n, dtype),
        written_bytes=bytes_of(dims.m * dims.n, out or dtype),
    )
