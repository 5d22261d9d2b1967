"""`FlowTable`: what is to be sent over which links; one row a flow."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from paceline.engine import native
from paceline.graph.graph import Int32, Int64

Float64 = NDArray[np.float64]


@dataclass(frozen=True)
class Flow:
    """Bytes at the busiest link, the weight of each link relative to that one, and a last wait.

    A plain message has weight 1 everywhere. `tail_ns` passes after the last byte has gone.
    """

    size_bytes: float
    weights: Mapping[int, float]
    tail_ns: int = 0


@dataclass(frozen=True, eq=False)
class FlowTable:
    """Columns of flows, links in CSR form, and the capacity of every link in bytes a second."""

    size_bytes: Float64
    tail_ns: Int64
    link_ptr: Int64
    link: Int32
    weight: Float64
    capacity: Float64

    @staticmethod
    def of(flows: Sequence[Flow], capacity: Float64) -> "FlowTable":
        counts = [len(flow.weights) for flow in flows]
        return FlowTable(
            np.array([flow.size_bytes for flow in flows], np.float64),
            np.array([flow.tail_ns for flow in flows], np.int64),
            np.concatenate([[0], np.cumsum(counts)]).astype(np.int64),
            np.array([link for flow in flows for link in flow.weights], np.int32),
            np.array([w for flow in flows for w in flow.weights.values()], np.float64),
            np.ascontiguousarray(capacity, np.float64),
        )

    def __len__(self) -> int:
        return len(self.size_bytes)

    @cached_property
    def native(self) -> Any:
        """The same, held by the native core, which must be there."""
        core = native()
        assert core is not None, "callers look whether the native core was built"
        return core.flow_table(
            self.size_bytes, self.tail_ns, self.link_ptr, self.link, self.weight, self.capacity
        )
