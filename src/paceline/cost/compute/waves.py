"""Wave scaling: a kernel recorded on one GPU, on another (Habitat, Yu et al., ATC 2021).

    T_d = T_o (BW_o / BW_d)^g (clock_o / clock_d)^(1-g) (units_o / units_d)^(1-g)

g says how far memory decides: with arithmetic intensity I and the destination's ridge point R,
g = 1 - I / (2 R) where I <= R and R / (2 I) above. A kernel of no more blocks than either device
has units is one wave on both and scales with the clock alone. Without flops or bytes g is 1.
"""

import numpy as np
from numpy.typing import NDArray

from paceline.cluster import ClusterError, Device
from paceline.cost.compute.roofline import peak
from paceline.graph.kinds import DType


def wave_scaled_ns(
    dur_ns: NDArray[np.int64],
    flops: NDArray[np.int64],
    size_bytes: NDArray[np.int64],
    dtype: DType,
    origin: Device,
    destination: Device,
) -> NDArray[np.float64]:
    """Durations on the destination of kernels recorded on the origin."""
    _require(origin)
    _require(destination)
    g = memory_share(flops, size_bytes, dtype, destination)
    bandwidth = origin.memory_bytes_per_s / destination.memory_bytes_per_s
    clock = origin.clock_hz / destination.clock_hz
    units = origin.units / destination.units
    return np.asarray(dur_ns * bandwidth**g * (clock * units) ** (1 - g), np.float64)


def one_wave_ns(dur_ns: float, blocks: int, origin: Device, destination: Device) -> float:
    """A kernel of so few blocks that it is one wave on both devices."""
    waves = -(-blocks // destination.units) / -(-blocks // origin.units)
    return dur_ns * origin.clock_hz / destination.clock_hz * waves


def memory_share(
    flops: NDArray[np.int64], size_bytes: NDArray[np.int64], dtype: DType, device: Device
) -> NDArray[np.float64]:
    """Habitat's gamma of each kernel on the destination."""
    known = (flops > 0) & (size_bytes > 0)
    intensity = np.where(known, flops / np.maximum(size_bytes, 1), 0.0)
    if not known.any():
        return np.ones(len(flops))
    ridge = peak(device, dtype) / device.memory_bytes_per_s
    below = 1 - 0.5 * intensity / ridge
    above = 0.5 * ridge / np.maximum(intensity, ridge)
    return np.where(intensity <= ridge, below, above)


def _require(device: Device) -> None:
    missing = [n for n in ("memory_bytes_per_s", "clock_hz", "units") if not getattr(device, n)]
    if missing:
        raise ClusterError(
            f"device {device.name} has no {', '.join(missing)}; wave scaling needs memory_rate, "
            "clock and units. Give them in the cluster file."
        )
