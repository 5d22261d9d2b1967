"""Layer, RMS, group, batch and instance normalisation."""

from collections.abc import Callable, Mapping
from functools import partial
from math import prod
from typing import Final

from paceline.graph.work import Rows, Way, Work, batch_norm, norm
from paceline.trace.shapes.inputs import Inputs


def _last(inputs: Inputs, data: int, weight: int, way: Way = Way.FORWARD, affine: int = 2) -> Work:
    """Over the last dimensions, as many as the weight has."""
    tensor, vector = inputs.tensor(data), inputs.optional(weight)
    columns = vector.count if vector else tensor.shape[-1]
    rows = tensor.count // max(columns, 1)
    return norm(Rows(rows, columns), tensor.dtype, way, affine=affine if vector else 0)


def _channels(inputs: Inputs, data: int, way: Way = Way.FORWARD) -> Work:
    """Over batch and places, once per channel."""
    tensor = inputs.tensor(data)
    channels = tensor.shape[1] if len(tensor.shape) > 1 else 1
    return batch_norm(Rows(channels, tensor.count // max(channels, 1)), tensor.dtype, way)


def _groups(inputs: Inputs, data: int, groups: int, way: Way = Way.FORWARD) -> Work:
    tensor, told = inputs.tensor(data), inputs.value(groups)
    rows = tensor.shape[0] * (int(told) if told.isdigit() else 1)
    return norm(Rows(rows, prod(tensor.shape) // max(rows, 1)), tensor.dtype, way, affine=0)


_BACK: Final = Way.BACKWARD
_batch: Final = partial(_channels, data=0)
_batch_back: Final = partial(_channels, data=1, way=_BACK)
_cudnn_back: Final = partial(_channels, data=0, way=_BACK)

RULES: Final[Mapping[str, Callable[[Inputs], Work]]] = {
    "aten::native_layer_norm": partial(_last, data=0, weight=2),
    "aten::native_layer_norm_backward": partial(_last, data=1, weight=5, way=_BACK),
    "aten::layer_norm": partial(_last, data=0, weight=2),
    "aten::rms_norm": partial(_last, data=0, weight=2, affine=1),
    "aten::_fused_rms_norm": partial(_last, data=0, weight=2, affine=1),
    "aten::_fused_rms_norm_backward": partial(_last, data=1, weight=4, way=_BACK, affine=1),
    "aten::native_group_norm": partial(_groups, data=0, groups=6),
    "aten::native_group_norm_backward": partial(_groups, data=1, groups=8, way=_BACK),
    "aten::native_batch_norm": _batch,
    "aten::_native_batch_norm_legit": _batch,
    "aten::_batch_norm_with_update": _batch,
    "aten::batch_norm": _batch,
    "aten::_batch_norm_impl_index": _batch,
    "aten::cudnn_batch_norm": _batch,
    "aten::miopen_batch_norm": _batch,
    "aten::native_batch_norm_backward": _batch_back,
    "aten::batch_norm_backward": _batch_back,
    "aten::cudnn_batch_norm_backward": _cudnn_back,
    "aten::miopen_batch_norm_backward": _cudnn_back,
    "aten::instance_norm": _batch,
    "aten::batch_norm_stats": _batch,
    "aten::batch_norm_elemt": _batch,
    "aten::batch_norm_backward_reduce": _batch_back,
    "aten::batch_norm_backward_elemt": _batch_back,
}
