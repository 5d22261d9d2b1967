"""Losses whose targets pick one figure per row. Those that compare whole tensors are pointwise."""

from collections.abc import Callable, Mapping
from typing import Final

from paceline.graph.work import Rows, Way, Work, loss
from paceline.trace.shapes.inputs import Inputs


def _picked(inputs: Inputs, place: int, way: Way) -> Work:
    data = inputs.tensor(place)
    columns = data.shape[1] if len(data.shape) > 1 else data.count
    return loss(Rows(data.count // max(columns, 1), columns), data.dtype, way)


def _forward(inputs: Inputs) -> Work:
    return _picked(inputs, 0, Way.FORWARD)


def _backward(inputs: Inputs) -> Work:
    return _picked(inputs, 1, Way.BACKWARD)


RULES: Final[Mapping[str, Callable[[Inputs], Work]]] = {
    "aten::nll_loss_forward": _forward,
    "aten::nll_loss2d_forward": _forward,
    "aten::nll_loss_nd": _forward,
    "aten::nll_loss_backward": _backward,
    "aten::nll_loss2d_backward": _backward,
    "aten::_ctc_loss": _forward,
    "aten::_cudnn_ctc_loss": _forward,
}
