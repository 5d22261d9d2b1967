"""Convolutions by cuDNN, MIOpen, oneDNN and torch's own, and their gradients."""

from collections.abc import Callable, Mapping
from functools import partial
from math import prod
from typing import Final

from paceline.graph.work import Convolution, Way, Work, convolution
from paceline.trace.shapes.inputs import Inputs, ShapeError, Tensor


def _out_size(size: int, kernel: int, stride: int, padding: int, dilation: int) -> int:
    return (size + 2 * padding - dilation * (kernel - 1) - 1) // stride + 1


def _whole(numbers: tuple[int, ...], count: int, default: int) -> tuple[int, ...]:
    """One number per dimension; a single one counts for all, none is the default."""
    if len(numbers) == 1:
        return numbers * count
    return numbers if len(numbers) == count else (default,) * count


def _forward(inputs: Inputs, order: tuple[int, int, int, int]) -> Work:
    """`order`: the places of stride, padding, dilation, groups. Without values a stride of one
    and a padding that keeps the size are taken."""
    data, weight = inputs.tensor(0), inputs.tensor(1)
    rank = len(weight.shape) - 2
    if rank < 1 or len(data.shape) < rank + 1:
        raise ShapeError(f"{data.shape} through {weight.shape}")
    stride, padding, dilation = (inputs.numbers(place) for place in order[:3])
    kernel, sizes = weight.shape[2:], data.shape[-rank:]
    steps = _whole(stride, rank, 1)
    pads = padding if len(padding) in (1, rank) else tuple(k // 2 for k in kernel)
    spread = _whole(dilation, rank, 1)
    out = tuple(map(_out_size, sizes, kernel, steps, _whole(pads, rank, 0), spread))
    groups = _groups(data, weight, rank)
    return convolution(_dims(data, weight, out, steps, groups), data.dtype)


def _groups(data: Tensor, weight: Tensor, rank: int) -> int:
    channels, per_group = data.shape[-rank - 1], weight.shape[1]
    if not per_group or channels % per_group:
        raise ShapeError(f"{channels} channels through {weight.shape}")
    return channels // per_group


def _dims(
    data: Tensor, weight: Tensor, out: tuple[int, ...], steps: tuple[int, ...], groups: int
) -> Convolution:
    rank = len(weight.shape) - 2
    return Convolution(
        b=prod(data.shape[: -rank - 1]),
        channels_in=data.shape[-rank - 1],
        channels_out=weight.shape[0],
        size_in=prod(data.shape[-rank:]),
        size_out=prod(out),
        kernel=prod(weight.shape[2:]),
        stride=prod(steps),
        groups=groups,
    )


def _transposed(data: Tensor, weight: Tensor, inputs: Inputs, places: tuple[int, ...]) -> Work:
    """The weight is input channels x output channels; the work is a backward pass to the data."""
    rank = len(weight.shape) - 2
    stride, padding, dilation, extra = (
        _whole(inputs.numbers(place), rank, default) for place, default in zip(places, (1, 0, 1, 0))
    )
    sizes, kernel = data.shape[-rank:], weight.shape[2:]
    out = tuple(
        (n - 1) * s - 2 * p + d * (k - 1) + 1 + e
        for n, s, p, d, k, e in zip(sizes, stride, padding, dilation, kernel, extra)
    )
    groups = data.shape[-rank - 1] // weight.shape[0]
    dims = Convolution(
        b=prod(data.shape[: -rank - 1]),
        channels_in=weight.shape[1] * max(groups, 1),
        channels_out=weight.shape[0],
        size_in=prod(out),
        size_out=prod(sizes),
        kernel=prod(kernel),
        stride=prod(stride),
        groups=max(groups, 1),
    )
    return convolution(dims, data.dtype, Way.BACKWARD_DATA)


def _general(inputs: Inputs) -> Work:
    """Data, weight, bias, stride, padding, dilation, transposed, extra padding, groups."""
    if inputs.is_true(6):
        return _transposed(inputs.tensor(0), inputs.tensor(1), inputs, (3, 4, 5, 7))
    return _forward(inputs, (3, 4, 5, 8))


def _turned(inputs: Inputs, places: tuple[int, ...]) -> Work:
    """`places`: of stride, padding, dilation, extra padding."""
    return _transposed(inputs.tensor(0), inputs.tensor(1), inputs, places)


def _backward(inputs: Inputs) -> Work:
    """aten::convolution_backward: gradient, data, weight, bias sizes, stride, padding, dilation,
    transposed, extra, groups, which of the gradients of data, weight and bias are wanted."""
    gradient, data, weight = (inputs.tensor(place) for place in range(3))
    rank = len(weight.shape) - 2
    if rank < 1 or len(gradient.shape) < rank + 1:
        raise ShapeError(f"{gradient.shape} through {weight.shape}")
    wanted = [text.strip() == "True" for text in inputs.value(10).strip("[]").split(",")]
    steps = _whole(inputs.numbers(4), rank, 1)
    if inputs.is_true(7):
        data, gradient = gradient, data
    groups = _groups(data, weight, rank)
    dims = _dims(data, weight, gradient.shape[-rank:], steps, groups)
    way = _WAYS.get(tuple(wanted[:2]), Way.BACKWARD)
    if inputs.is_true(7):
        way = {Way.BACKWARD_DATA: Way.FORWARD}.get(way, way)
    return convolution(dims, data.dtype, way)


_WAYS: Final[Mapping[tuple[bool, ...], Way]] = {
    (True, True): Way.BACKWARD,
    (True, False): Way.BACKWARD_DATA,
    (False, True): Way.BACKWARD_WEIGHT,
}

_plain: Final = partial(_forward, order=(3, 4, 5, 6))
_library: Final = partial(_forward, order=(3, 2, 4, 5))
_cudnn: Final = partial(_forward, order=(4, 3, 5, 6))
_fused: Final = partial(_forward, order=(3, 4, 5, 6))

RULES: Final[Mapping[str, Callable[[Inputs], Work]]] = {
    "aten::conv1d": _plain,
    "aten::conv2d": _plain,
    "aten::conv3d": _plain,
    "aten::convolution": _general,
    "aten::_convolution": _general,
    "aten::convolution_overrideable": _general,
    "aten::cudnn_convolution": _library,
    "aten::cudnn_convolution_relu": _fused,
    "aten::cudnn_convolution_add_relu": partial(_forward, order=(5, 6, 7, 8)),
    "aten::miopen_convolution": _cudnn,
    "aten::miopen_depthwise_convolution": _cudnn,
    "aten::mkldnn_convolution": _cudnn,
    "aten::thnn_conv2d": partial(_forward, order=(4, 5, 9, 9)),
    "aten::_slow_conv2d_forward": partial(_forward, order=(4, 5, 9, 9)),
    "aten::slow_conv3d_forward": partial(_forward, order=(4, 5, 9, 9)),
    "aten::_conv_depthwise2d": partial(_forward, order=(4, 5, 6, 9)),
    "aten::conv_depthwise3d": partial(_forward, order=(4, 5, 6, 9)),
    "aten::cudnn_convolution_transpose": partial(_turned, places=(4, 2, 5, 3)),
    "aten::miopen_convolution_transpose": partial(_turned, places=(5, 3, 6, 4)),
    "aten::convolution_backward": _backward,
}
