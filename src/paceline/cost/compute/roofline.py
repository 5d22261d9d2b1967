"""Roofline: a kernel takes the longer of its arithmetic and its memory traffic, plus a ramp.

t = ramp + max(flops / (peak x arithmetic), bytes / (memory rate x memory)). `arithmetic` and
`memory` are the shares of the datasheet's figures that large kernels reach; `ramp_ns` is what a
kernel loses at its ends (filling and draining the device), so that small kernels reach less.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from paceline.cluster import ClusterError, Device
from paceline.graph.kinds import Basis, DeviceKind, DType


@dataclass(frozen=True)
class Efficiency:
    """How near a device comes to its datasheet, and what its host spends on a launch."""

    arithmetic: float
    memory: float
    ramp_ns: float
    launch_ns: float
    basis: Basis = Basis.DATASHEET
    source: str = ""


TYPICAL = {
    DeviceKind.GPU: Efficiency(
        0.65, 0.70, 8_000.0, 25_000.0, source="large kernels of A100 to H200 in half precision"
    ),
    DeviceKind.CPU: Efficiency(
        0.55, 0.60, 4_000.0, 4_000.0, source="torch on two EPYC cores; see paceline measure"
    ),
}
"""Shares to start from where nothing was measured."""


def roofline_ns(
    flops: NDArray[np.int64],
    size_bytes: NDArray[np.int64],
    dtype: DType,
    device: Device,
    efficiency: Efficiency,
) -> NDArray[np.float64]:
    """Durations of kernels with so many operations and bytes."""
    arithmetic = flops / (peak(device, dtype) * efficiency.arithmetic) if flops.any() else 0.0
    if device.memory_bytes_per_s <= 0:
        raise ClusterError(f"device {device.name} has no memory_rate; give one")
    memory = size_bytes / (device.memory_bytes_per_s * efficiency.memory)
    return efficiency.ramp_ns + np.maximum(arithmetic, memory) * 1e9


def peak(device: Device, dtype: DType) -> float:
    """Operations a second for an element type; an unnamed type counts as float32."""
    wanted = DType.FLOAT32 if dtype is DType.NONE else dtype
    if wanted not in device.flops_per_s:
        known = ", ".join(t.name.lower() for t in device.flops_per_s) or "none"
        raise ClusterError(
            f"device {device.name} has no rate for {wanted.name.lower()}; it has {known}. "
            f"Add flops.{wanted.name.lower()} to the device, or choose another type."
        )
    return device.flops_per_s[wanted]
