"""`Sheet`: what a forecast must know of a device: its data sheet, and what its memory reaches."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from paceline.cluster import Device
from paceline.cost.achieved import achieved_memory
from paceline.cost.errors import CostError
from paceline.graph.kinds import DType, Vendor

_CACHE_BYTES: Final = 50e6
_CLOCK_HZ: Final = 1.8e9
_UNITS: Final = 140
"""Of a device whose sheet does not say: those of today's large GPUs."""

_FLOPS_PER_JOULE: Final[tuple[tuple[float, float], ...]] = (
    (5, 190e9),
    (7, 95e9),
    (12, 54e9),
    (16, 50e9),
)
"""Float32 operations per joule under a full load, by process up to so many nm. 16 and 12: large
matrix products on a P4 and a T4, which run at their power limits. 7 and 5 were not measured: A100
and H100 reach 69 and 85 without coming to their limits; these are other boards' sheets."""
_BOARD_WATTS: Final = 12
"""What a board draws beside arithmetic."""


@dataclass(frozen=True)
class Sheet:
    """One device. `matrix_flops` by element type are dense rates; `vector_flops` is float32."""

    name: str
    matrix_flops: Mapping[DType, float]
    memory_bytes_per_s: float
    units: float = _UNITS
    clock_hz: float = _CLOCK_HZ
    cache_bytes: float = _CACHE_BYTES
    vector_flops: float = 0.0
    vendor: Vendor = Vendor.NVIDIA
    watts: float = 0.0
    process_nm: float = 0.0
    link_bytes_per_s: float = 0.0
    reached_bytes_per_s: float = 0.0  # of the memory, by large kernels
    least_s: float = 0.0  # of a kernel that has next to nothing to do, on the device
    assumed: tuple[str, ...] = field(default=())  # figures that the sheet did not give

    def peak(self, dtype: DType) -> float:
        """Operations per second of matrix units for a type."""
        if not self.rate(dtype):
            known = ", ".join(one.name.lower() for one in self.matrix_flops) or "none"
            raise CostError(
                f"device {self.name} has no rate for {dtype.name.lower()}; it has {known}. "
                f"Add flops.{dtype.name.lower()} to the device, or choose another type."
            )
        return self.rate(dtype)

    def rate(self, dtype: DType) -> float:
        """The same, 0 where the device has no such type. NVIDIA's matrix units round float32 to
        TF32 at half the rate of bfloat16."""
        if dtype is DType.TFLOAT32 and dtype not in self.matrix_flops:
            nvidia = self.vendor is Vendor.NVIDIA
            return self.matrix_flops.get(DType.BFLOAT16, 0.0) / 2 if nvidia else 0.0
        return self.matrix_flops.get(dtype, 0.0)

    def sustained(self) -> float:
        """Share of the boost clock that float32 arithmetic on all units keeps within the power."""
        rate = self.matrix_flops.get(DType.FLOAT32, 0.0)
        if self.vendor is Vendor.AMD or not (self.watts and self.process_nm and rate):
            return 1.0
        fits = [joule for nm, joule in _FLOPS_PER_JOULE if self.process_nm <= nm]
        per_joule = fits[0] if fits else _FLOPS_PER_JOULE[-1][1]
        return min(1.0, (self.watts - _BOARD_WATTS) * per_joule / rate)


def sheet_of(device: Device) -> Sheet:
    """The sheet of a cluster's device; what it lacks is assumed, and named in `assumed`."""
    if device.memory_bytes_per_s <= 0:
        raise CostError(f"device {device.name} has no memory_rate; give one")
    usual = {"units": _UNITS, "clock_hz": _CLOCK_HZ, "cache_bytes": _CACHE_BYTES}
    given = {name: getattr(device, name) or value for name, value in usual.items()}
    memory = achieved_memory(device)
    return Sheet(
        name=device.name,
        matrix_flops=dict(device.flops_per_s),
        memory_bytes_per_s=device.memory_bytes_per_s,
        vector_flops=device.flops_per_s.get(DType.FLOAT32, 0.0),
        vendor=device.vendor,
        watts=device.watts,
        process_nm=device.process_nm,
        link_bytes_per_s=device.link_bytes_per_s,
        reached_bytes_per_s=memory.bytes_per_s,
        least_s=memory.least_ns / 1e9,
        assumed=tuple(name for name in usual if not getattr(device, name)),
        **given,
    )
