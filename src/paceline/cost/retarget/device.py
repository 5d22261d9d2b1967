"""Another device for recorded work whose arithmetic is not known: between two ratios.

Work that memory bounds scales with the memory rates, work that arithmetic bounds with the peak
rates. Without flops and bytes of each op neither is known, so the geometric mean is taken.
"""

from dataclasses import dataclass
from math import sqrt

from paceline.cluster import Device
from paceline.cost.compute import peak
from paceline.cost.retarget.job import RetargetError
from paceline.graph import DType


@dataclass(frozen=True)
class DeviceFactor:
    """Time on the new device as a multiple of the old: the middle, and the two ratios."""

    middle: float
    low: float
    high: float


def device_factor(origin: Device, destination: Device, dtype: DType) -> DeviceFactor:
    """How work recorded on one device scales to another, by their datasheets."""
    for device in (origin, destination):
        if not device.memory_bytes_per_s:
            raise RetargetError(
                f"device {device.name} has no memory rate, so recorded work cannot be scaled to "
                "or from it; give memory_rate in the cluster file, or take a preset"
            )
    memory = origin.memory_bytes_per_s / destination.memory_bytes_per_s
    arithmetic = peak(origin, dtype) / peak(destination, dtype)
    return DeviceFactor(sqrt(memory * arithmetic), min(memory, arithmetic), max(memory, arithmetic))
