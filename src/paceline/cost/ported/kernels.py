"""Recorded kernels as columns, and what they worked on."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from paceline.cost.achieved import Achieved, rate_of
from paceline.graph import DType
from paceline.graph.graph import Graph, Int64, UInt8
from paceline.graph.work import Recorded


@dataclass(frozen=True, eq=False)
class Kernels:
    """One row per kernel."""

    dur_ns: Int64
    work: Int64  # row of `works`, or -1
    share: NDArray[np.float64]  # of its call's work
    works: Sequence[Recorded]
    columns: "Columns | None" = None  # of kernels whose graph keeps no recorded work

    @staticmethod
    def of(graph: Graph, rows: Int64) -> "Kernels":
        ops = graph.ops
        size, flops = (
            np.array([*(getattr(each.work, name) for each in graph.works), 0], np.int64)
            for name in ("size_bytes", "flops")
        )
        work = ops.work[rows].astype(np.int64)
        whole = np.where(size[work] > 0, size[work], flops[work])
        mine = np.where(size[work] > 0, ops.size_bytes[rows], ops.flops[rows])
        share = np.divide(mine, whole, out=np.ones(len(rows)), where=whole > 0)
        told = Columns(ops.flops[rows], ops.size_bytes[rows], ops.dtype[rows])
        return Kernels(ops.dur_ns[rows], work, np.minimum(share, 1.0), graph.works, told)


@dataclass(frozen=True, eq=False)
class Columns:
    """Arithmetic and bytes of kernels, and the types in which they compute."""

    flops: Int64
    size_bytes: Int64
    dtype: UInt8

    def roof_ns(self, device: Achieved) -> NDArray[np.float64]:
        rates = np.array([rate_of(device, dtype) for dtype in DType])[self.dtype]
        memory = self.size_bytes / device.memory_bytes_per_s
        return np.asarray(np.maximum(self.flops / rates, memory) * 1e9, np.float64)
