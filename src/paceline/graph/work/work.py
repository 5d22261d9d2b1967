"""`Work`: family, direction, type, dimensions, and the arithmetic and bytes that follow.

`flops` counts a multiplication and an addition as two, and what a mask spares is not counted.
`read_bytes` and `written_bytes` are what must cross the memory once, caches being ideal.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from enum import IntEnum
from typing import Any, Final

from paceline.graph.kinds import DType
from paceline.graph.work.dimensions import (
    Attention,
    Convolution,
    Dims,
    Elements,
    Grouped,
    Matrix,
    Rows,
)


class Family(IntEnum):
    """How an operator spends its time. New members go at the end: the numbers are in files."""

    OTHER = 0
    MATRIX = 1
    GROUPED_MATRIX = 2
    CONVOLUTION = 3
    ATTENTION = 4
    NORM = 5
    SOFTMAX = 6
    LOSS = 7
    EMBEDDING = 8
    REDUCTION = 9
    POINTWISE = 10
    COPY = 11
    OPTIMIZER = 12
    POOLING = 13
    SORT = 14
    COLLECTIVE = 15
    BATCH_NORM = 16  # over batch and places, once per channel


class Way(IntEnum):
    """Which pass of an operator."""

    FORWARD = 0
    BACKWARD = 1  # all gradients at once
    BACKWARD_DATA = 2
    BACKWARD_WEIGHT = 3


DIMENSIONS: Final[Mapping[Family, type[Dims]]] = {
    Family.OTHER: Elements,
    Family.MATRIX: Matrix,
    Family.GROUPED_MATRIX: Grouped,
    Family.CONVOLUTION: Convolution,
    Family.ATTENTION: Attention,
    Family.NORM: Rows,
    Family.SOFTMAX: Rows,
    Family.LOSS: Rows,
    Family.EMBEDDING: Rows,
    Family.REDUCTION: Rows,
    Family.POINTWISE: Elements,
    Family.COPY: Elements,
    Family.OPTIMIZER: Elements,
    Family.POOLING: Rows,
    Family.SORT: Rows,
    Family.COLLECTIVE: Elements,
    Family.BATCH_NORM: Rows,
}
"""What the dimensions of each family are."""


@dataclass(frozen=True)
class Work:
    """What one call of an operator has to do. Make it with the function of its family."""

    family: Family
    dtype: DType  # that the arithmetic is done in; TFLOAT32 where float32 is rounded to it
    dims: Dims
    flops: int
    read_bytes: int
    written_bytes: int
    way: Way = Way.FORWARD

    @property
    def size_bytes(self) -> int:
        return self.read_bytes + self.written_bytes

    @property
    def is_known(self) -> bool:
        return self.size_bytes > 0 or self.flops > 0

    @property
    def dense_flops(self) -> int:
        """As if a causal mask spared nothing, which is how torch and most papers count."""
        if isinstance(self.dims, Attention) and self.dims.causal:
            whole = self.dims.s * self.dims.s_kv
            return round(self.flops * whole / seen(self.dims))
        return self.flops


def seen(dims: Attention) -> int:
    """Pairs of query and key that the mask leaves: torch's masks begin at the upper left."""
    if not dims.causal:
        return dims.s * dims.s_kv
    square = min(dims.s, dims.s_kv)
    return square * (square + 1) // 2 + (dims.s - square) * dims.s_kv


def unknown(family: Family = Family.OTHER, dtype: DType = DType.NONE) -> Work:
    """Of a family, with nothing known of its dimensions."""
    kind = DIMENSIONS[family]
    none: Any = (0 for each in fields(kind) if each.type is int)
    return Work(family, dtype, kind(*none), 0, 0, 0)


UNKNOWN: Final = unknown()


@dataclass(frozen=True)
class Launch:
    """How a kernel was put on its device; zero where the trace does not say."""

    blocks: int = 0  # of the whole grid
    threads: int = 0  # of one block
    registers: int = 0  # of one thread
    shared_bytes: int = 0  # of one block


@dataclass(frozen=True)
class Recorded:
    """What a recorded kernel worked on. Kernels of one call carry shares of it in their op's
    `flops` and `size_bytes`."""

    operator: str  # as torch names it; empty where nothing tells
    work: Work
    launch: Launch = Launch()
    inferred: bool = False  # from the kernel's name and grid, not from recorded shapes
