"""What a device cannot exceed: `limits_of`, and the least time in which it can do a work.

    t >= max(flops / rate, (bytes - cache) / memory, bytes / (10 memory))

Of a GPU that no preset names, it has as many processors as it tells, each as fast as the fastest
that is known. Wrong where a device outruns its data sheet by more than the margins below.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Final

from paceline.cluster import Device
from paceline.cluster.files import device
from paceline.cluster.presets import table
from paceline.cluster.recognised import recognised
from paceline.graph import DeviceKind, DType, RecordedGpu
from paceline.graph.kinds import Vendor
from paceline.graph.work import Convolution, Family, Work

PRODUCTS: Final = (Family.MATRIX, Family.GROUPED_MATRIX, Family.CONVOLUTION, Family.ATTENTION)
TIMER_NS: Final = 1000
"""Older profilers count whole microseconds: no kernel is taken to be shorter."""
_ARITHMETIC: Final = 1.5
"""Products may seem this much faster than the data sheet: clocks above it, zeros, short timers."""
_WINOGRAD: Final = 4.0
"""Fewer multiplications that a kernel of 3 x 3 needs where it makes 4 x 4 results at once (Lavin
and Gray, 2016); direct arithmetic is what is counted."""
_MEMORY: Final = 2.0
_CACHED: Final = 10.0
"""Times the memory's rate at which the last cache gives at most: 8 on an L4, 3 on an MI300X."""


@dataclass(frozen=True)
class Limits:
    """Of one device; `device` is None where nothing of it is known."""

    device: Device | None = None

    @property
    def name(self) -> str:
        return self.device.name if self.device else "the device"

    @property
    def units(self) -> int:
        return self.device.units if self.device else 0

    def least_ns(self, work: Work) -> float:
        """No kernel does the work in less; 0 where nothing tells."""
        if self.device is None:
            return 0.0
        arithmetic = work.flops / self._rate(work) if work.family in PRODUCTS else 0.0
        # attention keeps what it works on in the processors: its arithmetic alone counts
        memory = 0.0 if work.family is Family.ATTENTION else self._moving(work.size_bytes)
        return max(arithmetic, memory) * 1e9

    def _rate(self, work: Work) -> float:
        assert self.device is not None
        fewer = isinstance(work.dims, Convolution) and work.dims.kernel > 1
        return fastest(self.device.flops_per_s, work.dtype) * _ARITHMETIC * _WINOGRAD**fewer

    def _moving(self, size_bytes: int) -> float:
        assert self.device is not None
        rate = self.device.memory_bytes_per_s
        beyond = max(size_bytes - self.device.cache_bytes, 0.0)
        return max(beyond / (_MEMORY * rate), size_bytes / (_CACHED * rate))


def fastest(flops_per_s: Mapping[DType, float], dtype: DType) -> float:
    """Operations per second of the fastest units that take the type. Tensor cores round float32 to
    TF32 at half the rate of bfloat16, and run float64 at twice the rate that sheets give for it."""
    most = max(flops_per_s.values())
    if dtype in (DType.FLOAT32, DType.TFLOAT32):
        told = (flops_per_s.get(t, 0.0) for t in (DType.FLOAT32, DType.TFLOAT32))
        return max(flops_per_s.get(DType.BFLOAT16, 0.0) / 2, *told) or most
    if dtype is DType.FLOAT64:
        return min(2 * flops_per_s.get(dtype, most), most)
    return flops_per_s.get(dtype, most)


def limits_of(gpus: list[RecordedGpu]) -> Limits:
    """Of the first: a trace's kernels run on one kind."""
    if not gpus:
        return Limits()
    found = recognised(gpus[0]) or _as_fast_as_any(gpus[0])
    return Limits(found if found and found.flops_per_s and found.memory_bytes_per_s else None)


def _as_fast_as_any(gpu: RecordedGpu) -> Device | None:
    if not gpu.units:
        return None
    best = _best_unit()
    return Device(
        name=gpu.name,
        kind=DeviceKind.GPU,
        memory_bytes_per_s=best.memory_bytes_per_s * gpu.units,
        units=gpu.units,
        flops_per_s={dtype: rate * gpu.units for dtype, rate in best.flops_per_s.items()},
        cache_bytes=best.cache_bytes * gpu.units,
    )


@cache
def _best_unit() -> Device:
    """One processor with the best of all presets."""
    known = list(_gpus())
    types = {dtype for each in known for dtype in each.flops_per_s}
    return Device(
        name="the fastest processor known",
        memory_bytes_per_s=max(each.memory_bytes_per_s / each.units for each in known),
        flops_per_s={
            dtype: max(each.flops_per_s.get(dtype, 0.0) / each.units for each in known)
            for dtype in types
        },
        cache_bytes=max(each.cache_bytes / each.units for each in known),
    )


def _gpus() -> Iterator[Device]:
    """Those whose processors a trace counts as their presets do."""
    for name in table("devices"):
        found = device(name)
        counted = found.vendor in (Vendor.NVIDIA, Vendor.AMD) and found.units
        if found.kind is DeviceKind.GPU and counted:
            yield found
