"""Softmax and its logarithm, whole rows at a time."""

from collections.abc import Callable, Mapping
from typing import Final

from paceline.graph.work import Rows, Way, Work, softmax
from paceline.trace.shapes.inputs import Inputs, Tensor


def _rows(tensor: Tensor, dim: str) -> Rows:
    place = int(dim) if dim.lstrip("-").isdigit() else -1
    columns = tensor.shape[place] if -len(tensor.shape) <= place < len(tensor.shape) else 1
    return Rows(tensor.count // max(columns, 1), columns)


def _forward(inputs: Inputs) -> Work:
    data = inputs.tensor(0)
    return softmax(_rows(data, inputs.value(1)), data.dtype)


def _backward(inputs: Inputs) -> Work:
    gradient = inputs.tensor(0)
    return softmax(_rows(gradient, inputs.value(2)), gradient.dtype, Way.BACKWARD)


RULES: Final[Mapping[str, Callable[[Inputs], Work]]] = {
    "aten::_softmax": _forward,
    "aten::_log_softmax": _forward,
    "aten::softmax": _forward,
    "aten::log_softmax": _forward,
    "aten::_safe_softmax": _forward,
    "aten::_masked_softmax": _forward,
    "aten::_softmax_backward_data": _backward,
    "aten::_log_softmax_backward_data": _backward,
    "aten::_masked_softmax_backward": _backward,
}
