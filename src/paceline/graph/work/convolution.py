"""Convolutions of one to three dimensions, forward and both backward passes.

Direct arithmetic is counted: Winograd and Fourier kernels do less, and so may pass the roofline.
A transposed convolution is the BACKWARD_DATA pass of the convolution that it transposes.
"""

from paceline.graph.kinds import DType
from paceline.graph.work.dimensions import Convolution
from paceline.graph.work.sizes import bytes_of
from paceline.graph.work.work import Family, Way, Work


def convolution(dims: Convolution, dtype: DType, way: Way = Way.FORWARD) -> Work:
    """BACKWARD is both gradients in one call."""
    per_output = dims.channels_in // dims.groups * dims.kernel
    flops = 2 * dims.b * dims.channels_out * dims.size_out * per_output
    data = bytes_of(dims.b * dims.channels_in * dims.size_in, dtype)
    weight = bytes_of(dims.channels_out * per_output, dtype)
    result = bytes_of(dims.b * dims.channels_out * dims.size_out, dtype)
    read, written = {
        Way.FORWARD: (data + weight, result),
        Way.BACKWARD_DATA: (result + weight, data),
        Way.BACKWARD_WEIGHT: (result + data, weight),
        Way.BACKWARD: (2 * result + weight + data, data + weight),
    }[way]
    passes = 2 if way is Way.BACKWARD else 1
    return Work(Family.CONVOLUTION, dtype, dims, passes * flops, read, written, way)
