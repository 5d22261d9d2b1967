"""Fused optimizers: one call for all parameters."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

from paceline.graph.work import Elements, Work, optimizer
from paceline.trace.shapes.inputs import Inputs, ShapeError


def _fused(inputs: Inputs, written: int) -> Work:
    """`written`: of a parameter's tensors, those that change: itself and its states."""
    lists = inputs.lists()
    if not lists:
        raise ShapeError("lists too long for the trace to tell")
    count = sum(tensor.count for tensor in lists[0])
    alike = [group for group in lists if sum(t.count for t in group) == count]
    return optimizer(Elements(count, max(len(alike), 1)), lists[0][0].dtype, written)


_adam: Final = partial(_fused, written=3)

RULES: Final[Mapping[str, Callable[[Inputs], Work]]] = {
    "aten::_fused_adam_": _adam,
    "aten::_fused_adamw_": _adam,
    "aten::_fused_sgd_": partial(_fused, written=2),
    "aten::_fused_adagrad_": partial(_fused, written=2),
}
