"""Of what an operator reads: the samples that it is given, without weights."""

from paceline.graph.work.dimensions import Attention, Convolution, Elements, Grouped, Matrix, Rows
from paceline.graph.work.sizes import bytes_of
from paceline.graph.work.work import Family, Work

_INDEX_BYTES = 8  # torch's int64


def given_bytes(work: Work) -> int:
    """Where an operator picks rows of a table it is given their numbers."""
    dims = work.dims
    if work.family is Family.EMBEDDING and isinstance(dims, Rows):
        return _INDEX_BYTES * dims.rows
    return bytes_of(_elements(dims), work.dtype)


def _elements(dims: Matrix | Grouped | Convolution | Attention | Rows | Elements) -> int:
    if isinstance(dims, Matrix):
        return dims.b * dims.m * dims.k
    if isinstance(dims, Grouped):
        return dims.m * dims.k
    if isinstance(dims, Convolution):
        return dims.b * dims.channels_in * dims.size_in
    if isinstance(dims, Attention):
        queries = dims.heads * dims.s * dims.d
        return dims.b * (queries + dims.kv_heads * dims.s_kv * (dims.d + dims.d_v))
    if isinstance(dims, Rows):
        return dims.rows * dims.columns
    return dims.count * dims.inputs
