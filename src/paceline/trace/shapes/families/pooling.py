"""Pooling and resampling: every element of one side is touched once."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

from paceline.graph.work import Rows, Way, Work, pooling
from paceline.trace.shapes.inputs import Inputs

_NAMES: Final = (
    "max_pool2d_with_indices max_pool3d_with_indices avg_pool2d avg_pool3d _adaptive_avg_pool2d "
    "_adaptive_avg_pool3d adaptive_max_pool2d upsample_nearest1d upsample_nearest2d "
    "upsample_nearest3d upsample_bilinear2d upsample_bicubic2d _upsample_bilinear2d_aa "
    "grid_sampler_2d pixel_shuffle im2col col2im max_pool2d adaptive_avg_pool2d"
).split()


def _forward(inputs: Inputs) -> Work:
    """The input counts; results of resampling, which may be more, are not told."""
    data = inputs.tensor(0)
    return pooling(Rows(data.count, 1), data.dtype)


def _backward(inputs: Inputs, place: int) -> Work:
    data = inputs.optional(place) or inputs.tensor(0)
    return pooling(Rows(data.count, 1), data.dtype, Way.BACKWARD)


RULES: Final[Mapping[str, Callable[[Inputs], Work]]] = {
    **{f"aten::{name}": _forward for name in _NAMES},
    **{f"aten::{name}_backward": partial(_backward, place=1) for name in _NAMES},
}
