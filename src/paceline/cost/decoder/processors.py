"""Parts of a decoder on a processor: by its rates alone, for the tables have none of its kernels.

Where a recording says how long layers took (`timed`), only ratios of these are used.
"""

from collections.abc import Iterable
from typing import Final

from paceline.cluster import Device
from paceline.cost.compute import TYPICAL, peak
from paceline.graph.kinds import DeviceKind, DType
from paceline.graph.work import element_bytes
from paceline.imagine.decoder import Core, Operator, Passes, Product

_BACK: Final = 2.5
"""Attention's backward pass over its forward one: five products in place of two."""


class ProcessorKernels:
    """Nanoseconds of operators on one kind of processor, as `Kernels` gives those of a GPU."""

    def __init__(self, device: Device) -> None:
        self.device, self.rates = device, TYPICAL[DeviceKind.CPU]

    def learn(self, operators: Iterable[Operator]) -> None:
        """Nothing: rates need no asking."""

    def ns(self, one: Operator) -> float:
        if isinstance(one, Product):
            return self._product_ns(one)
        if isinstance(one, Core):
            return self._core_ns(one)
        if isinstance(one, Passes):
            return self._moved_ns(one.size_bytes) + one.launches * self.rates.ramp_ns
        return 0.0

    def _product_ns(self, one: Product) -> float:
        flops = 2.0 * one.b * one.m * one.n * one.k / peak(self.device, one.dtype)
        elements = one.b * (one.m * one.k + one.k * one.n + one.m * one.n)
        moved = self._moved_ns(elements * element_bytes(one.dtype))
        each = self.rates.ramp_ns + max(flops / self.rates.arithmetic * 1e9, moved)
        return one.count * each

    def _core_ns(self, one: Core) -> float:
        pairs = one.b * one.heads * one.s * one.s / 2 * one.share
        flops = 2.0 * pairs * (one.head_dim + one.value_dim) * (_BACK if one.back else 1.0)
        rate = peak(self.device, DType.FLOAT32) * self.rates.arithmetic
        return self.rates.ramp_ns + flops / rate * 1e9

    def _moved_ns(self, size_bytes: float) -> float:
        return size_bytes / (self.device.memory_bytes_per_s * self.rates.memory) * 1e9
