"""Durations of recorded kernels on another device.

    t_d = s f_d + (t_o - s f_o) (p R_d / R_o + (1 - p) c_o / c_d)

f is the device's least time of a kernel, R how long the work takes at the rates that the device
achieves, c its clock, p how full the kernel keeps the recorded device, and s the kernel's share of
its call: kernels that one library launches for an operator and another fuses or splits are carried
over together, with the cost of one launch. A kernel whose work is not known has the ratio of what
decides in its family, arithmetic or memory. Caches are not looked at, nor which tiles the other
library picks; attention of another library may be off threefold where it does not fill the device.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from paceline.cluster import Device
from paceline.cost.ported.achieved import Achieved, achieved, rate_of
from paceline.cost.ported.roof import PRODUCTS, fill, roof_ns
from paceline.graph.graph import Graph, Int64
from paceline.graph.work import Recorded, unknown

_NOTHING = Recorded("", unknown())


@dataclass(frozen=True, eq=False)
class Kernels:
    """Recorded kernels as columns, and what they worked on."""

    dur_ns: Int64
    work: Int64  # row of `works`, or -1
    share: NDArray[np.float64]  # of its call's work
    works: Sequence[Recorded]

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
        return Kernels(ops.dur_ns[rows], work, np.minimum(share, 1.0), graph.works)


def ported_ns(kernels: Kernels, origin: Device, destination: Device) -> NDArray[np.float64]:
    """Durations on the destination of kernels recorded on the origin."""
    here, there = achieved(origin), achieved(destination)
    clock = origin.clock_hz / destination.clock_hz if destination.clock_hz else 1.0
    factors = np.array(
        [_factor(each, origin, (here, there), clock or 1.0) for each in (*kernels.works, _NOTHING)]
    )
    fixed = np.minimum(kernels.share * here.least_ns, kernels.dur_ns)
    body = kernels.dur_ns - fixed
    return np.asarray(kernels.share * there.least_ns + body * factors[kernels.work], np.float64)


def _factor(
    recorded: Recorded, origin: Device, rates: tuple[Achieved, Achieved], clock: float
) -> float:
    """How much longer the body of a kernel takes on the destination."""
    here, there = rates
    work, full = recorded.work, fill(recorded.work.family, recorded.launch, origin)
    if work.is_known:
        ratio = roof_ns(work, there) / roof_ns(work, here)
    elif work.family in PRODUCTS:
        ratio = rate_of(here, work.dtype) / rate_of(there, work.dtype)
    else:
        ratio = here.memory_bytes_per_s / there.memory_bytes_per_s
    return full * ratio + (1 - full) * clock
