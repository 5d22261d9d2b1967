"""What an operator has to do, whatever device does it: family, dimensions, arithmetic, bytes.

    work = matrix(Matrix(b=1, m=512, n=2048, k=512), DType.BFLOAT16)
    work.flops, work.read_bytes, work.written_bytes      # 1073741824, 2621440, 2097152

Traces are read into it (`trace/shapes`), devices are asked for it (`cost`). One file per kind of
dimensions; `Family` says how an operator spends its time.
"""

from paceline.graph.work.attention import attention
from paceline.graph.work.convolution import convolution
from paceline.graph.work.dimensions import (
    Attention,
    Convolution,
    Dims,
    Elements,
    Grouped,
    Matrix,
    Rows,
)
from paceline.graph.work.elements import copied, moved, optimizer, pointwise
from paceline.graph.work.given import given_bytes
from paceline.graph.work.matrix import grouped, matrix
from paceline.graph.work.rows import (
    batch_norm,
    embedding,
    loss,
    norm,
    pooling,
    reduction,
    softmax,
)
from paceline.graph.work.sizes import element_bytes
from paceline.graph.work.work import (
    DIMENSIONS,
    UNKNOWN,
    Family,
    Launch,
    Recorded,
    Way,
    Work,
    unknown,
)

__all__ = [
    "DIMENSIONS",
    "UNKNOWN",
    "Attention",
    "Convolution",
    "Dims",
    "Elements",
    "Family",
    "Grouped",
    "Launch",
    "Matrix",
    "Recorded",
    "Rows",
    "Way",
    "Work",
    "attention",
    "batch_norm",
    "convolution",
    "copied",
    "element_bytes",
    "embedding",
    "given_bytes",
    "grouped",
    "loss",
    "matrix",
    "moved",
    "norm",
    "optimizer",
    "pointwise",
    "pooling",
    "reduction",
    "softmax",
    "unknown",
]
