"""Batch norms of images whose channels lie first, as NVIDIA's libraries run them.

    t = w least + ((waves places / b)^p + (elements / (n s))^p + (bytes / rate)^p)^(1/p)

One block has a whole channel, so that few channels leave most of the device idle: a block's few
hundred threads wait for the memory together, and b elements per second is all that they reach,
whatever the device (`block`, over the waves of blocks). Several blocks on one of the n processors
share its rate s, in elements per cycle (`unit`). No processor keeps a channel, so what is summed up
is read again to be scaled: three passes over memory forward, five backward.

cuDNN runs float32 and float16. torch gives it no bfloat16 with channels first, so its own kernels
run that: two forward, moments and scaling. The figures of both are those of 106 and 159 kernels on
an H100 (ResNet-50, batches of 128). An H200, from which nothing was taken, is 1 % off in both
types (docs/accuracy.md).

Wrong for images of a few places, whose scaling leaves most threads of torch's blocks idle. With
channels last all of it takes its passes over memory (`channels`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from paceline.cost.forecast.asked import Forecast
from paceline.cost.forecast.method import Column, joined
from paceline.cost.forecast.sheet import Sheet
from paceline.graph.kinds import DType, Vendor
from paceline.graph.work import Rows, Way, Work


@dataclass(frozen=True)
class _Kernel:
    """Elements that a block takes in a second, and a processor in a cycle; 0: no limit."""

    block: float
    unit: float
    share: float = 1.0  # of the call's bytes


_CUDNN: Final[Mapping[Way, tuple[_Kernel, ...]]] = {
    Way.FORWARD: (_Kernel(1.79e9, 0.0),),
    Way.BACKWARD: (_Kernel(0.67e9, 0.9),),
}
_TORCH: Final[Mapping[Way, tuple[_Kernel, ...]]] = {
    Way.FORWARD: (_Kernel(1.06e9, 2.1, share=1 / 3), _Kernel(0.0, 1.7, share=2 / 3)),
    Way.BACKWARD: (_Kernel(0.5e9, 0.73),),
}
_RESIDENT: Final = 4  # blocks of 512 threads on a processor
_POWER: Final = 3.0
_WAITS: Final = 2  # for a channel, and then for its sum
_SPREAD: Final = 0.25
"""As of other kernels that the memory decides, on devices of which nothing was seen."""


def batch_norms(works: Sequence[Work], sheet: Sheet) -> Forecast:
    """Nanoseconds of each. Of other makers' libraries the passes over memory are known alone."""
    dur_ns = np.array([_seconds(work, sheet) for work in works], np.float32) * np.float32(1e9)
    wide = np.float32(1 + _SPREAD)
    rests_on = f"blocks of a channel each on {sheet.name}"
    return Forecast(dur_ns, dur_ns / wide, dur_ns * wide, rests_on)


def in_passes_s(work: Work, sheet: Sheet) -> float:
    """What its passes over memory take: what is read is read twice."""
    moved = 2 * work.read_bytes + work.written_bytes
    rate = sheet.reached_bytes_per_s or sheet.memory_bytes_per_s
    return moved / rate


def _seconds(work: Work, sheet: Sheet) -> float:
    kernels = _kernels(work, sheet)
    return sum(_kernel_s(each, work, sheet) for each in kernels)


def _kernels(work: Work, sheet: Sheet) -> tuple[_Kernel, ...]:
    if sheet.vendor is not Vendor.NVIDIA:
        return (_Kernel(0.0, 0.0),)
    table = _TORCH if work.dtype is DType.BFLOAT16 else _CUDNN
    return table[Way.FORWARD if work.way is Way.FORWARD else Way.BACKWARD]


def _kernel_s(kernel: _Kernel, work: Work, sheet: Sheet) -> float:
    dims = work.dims
    assert isinstance(dims, Rows)
    waves = max(1.0, dims.rows / (sheet.units * _RESIDENT))
    limits = [kernel.share * in_passes_s(work, sheet)]
    if kernel.block:
        limits.append(waves * dims.columns / kernel.block)
    if kernel.unit:
        limits.append(dims.rows * dims.columns / (sheet.units * sheet.clock_hz * kernel.unit))
    total: Column = joined(_POWER, *(np.array([limit]) for limit in limits))
    return float(total[0]) + _WAITS * sheet.least_s
