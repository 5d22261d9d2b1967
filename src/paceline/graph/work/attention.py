"""Attention in one kernel: products, softmax and products, without the matrix of all pairs.

Forward does two products per pair of query and key, backward five: the scores once more, and the
gradients of queries, keys, values and scores (Dao et al., FlashAttention-2, 2023, section 3.1).
"""

from paceline.graph.kinds import DType
from paceline.graph.work.dimensions import Attention
from paceline.graph.work.sizes import bytes_of
from paceline.graph.work.work import Family, Way, Work, seen


def attention(dims: Attention, dtype: DType, way: Way = Way.FORWARD) -> Work:
    pairs = dims.b * dims.heads * seen(dims)
    queries = dims.b * dims.heads * dims.s
    keys = dims.b * dims.kv_heads * dims.s_kv
    q, k, v, out = (
        bytes_of(count, dtype)
        for count in (queries * dims.d, keys * dims.d, keys * dims.d_v, queries * dims.d_v)
    )
    sums = bytes_of(queries, DType.FLOAT32)
    if way is Way.FORWARD:
        flops = 2 * pairs * (dims.d + dims.d_v)
        return Work(Family.ATTENTION, dtype, dims, flops, q + k + v, out + sums)
    flops = 2 * pairs * (3 * dims.d + 2 * dims.d_v)
    return Work(
        Family.ATTENTION, dtype, dims, flops, q + k + v + 2 * out + sums, q + k + v, Way.BACKWARD
    )
