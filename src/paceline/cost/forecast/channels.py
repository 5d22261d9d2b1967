"""What the order of channels costs a GPU: forecasts are of images whose channels lie first.

NVIDIA's matrix units work on channels that lie last, so cuDNN puts what a convolution is given in
that order and its results back, each in a kernel that reads and writes it once: at the memory's
rate, but no more than two elements read and two written by each processor in a cycle, which in 2
bytes is two thirds of an H100's memory (ResNet-50, 3 x 3 places). A convolution of one place
without strides is a product of matrices, which runs as its images lie where their rows of places
begin at 16 bytes. With channels last none of this is done, and batch norms take their passes over
memory.

Wrong where cuDNN finds that another kernel is faster than these: it orders more than is told here.
"""

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from paceline.cost.forecast.batch_norms import in_passes_s
from paceline.cost.forecast.sheet import Sheet
from paceline.graph.kinds import DType, Vendor
from paceline.graph.work import Convolution, Family, Way, Work, element_bytes

_ON_MATRIX_UNITS: Final = frozenset({DType.TFLOAT32, DType.BFLOAT16, DType.FLOAT16})
_PER_CYCLE: Final = 4  # elements that a processor reads and writes
_KERNELS: Final = {Way.BACKWARD: 5}
_ONE_WAY: Final = 3
"""Data, weight and result; of both gradients together data and weight there and back."""
_ALIGNED_BYTES: Final = 16


def ordered_s(work: Work, sheet: Sheet) -> float:
    """Seconds of putting a convolution's images in order, and back."""
    dims = work.dims
    if not isinstance(dims, Convolution) or not _is_ordered(work, dims, sheet):
        return 0.0
    size = element_bytes(work.dtype)
    memory = sheet.reached_bytes_per_s or sheet.memory_bytes_per_s
    rate = min(memory, sheet.units * sheet.clock_hz * _PER_CYCLE * size)
    result = size * dims.b * dims.channels_out * dims.size_out
    once = work.size_bytes - (result if work.way is Way.BACKWARD else 0)
    return 2 * once / rate + _KERNELS.get(work.way, _ONE_WAY) * sheet.least_s


def with_channels_last(
    works: Sequence[Work], dur_ns: NDArray[np.float64], sheet: Sheet
) -> NDArray[np.float64]:
    """Forecasts of any works, as they are with channels last."""
    norm = np.array([work.family is Family.BATCH_NORM for work in works], np.bool_)
    passes_ns = np.array([in_passes_s(work, sheet) for work in works]) * 1e9
    ordered_ns = np.array([ordered_s(work, sheet) for work in works]) * 1e9
    left = np.where(ordered_ns > 0, np.maximum(dur_ns - ordered_ns, sheet.least_s * 1e9), dur_ns)
    return np.where(norm, np.minimum(dur_ns, passes_ns), left)


def _is_ordered(work: Work, dims: Convolution, sheet: Sheet) -> bool:
    if sheet.vendor is not Vendor.NVIDIA or work.dtype not in _ON_MATRIX_UNITS or dims.groups > 1:
        return False
    row_bytes = element_bytes(work.dtype) * dims.size_out
    product = dims.kernel == 1 and dims.stride == 1
    return not product or row_bytes % _ALIGNED_BYTES != 0
