"""The operator calls of a network and what each has to do, from shapes alone.

calls_of(model, (1, 3, 224, 224))      # (Recorded("aten::convolution", Work(...)), ...)
"""

import copy
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from paceline.graph.work import Elements, Family, Recorded, Work, unknown
from paceline.imagine.torch_work import touched_bytes
from paceline.trace.shapes.families import RULES
from paceline.trace.shapes.inputs import Inputs, ShapeError, Tensor
from paceline.trace.spelling import dtype_of

Call = Callable[[], Any]


def calls_of(model: Any, shape: Sequence[int]) -> tuple[Recorded, ...]:
    """Of one forward pass of a network that is evaluated. The model itself is left as it is."""
    imagined = copy.deepcopy(model).to("meta").eval()
    with torch.no_grad(), Calls() as seen:
        imagined(torch.empty(tuple(shape), device="meta"))
    return tuple(seen.calls)


class Calls(TorchDispatchMode):
    """The work of every call that computes or copies, as they come; `around` makes the call."""

    def __init__(self, around: Callable[[Call], Any] | None = None) -> None:
        super().__init__()
        self.calls: list[Recorded] = []
        self._around = around or (lambda call: call())

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func.is_view or not computes(func):
            return func(*args, **kwargs)
        out = self._around(lambda: func(*args, **kwargs))
        self.calls.append(Recorded(_name(func), work_of(func, args, kwargs, out)))
        return out


def computes(func: Any) -> bool:
    """Not those that only make or name a tensor."""
    return func.overloadpacket not in _MAKES


_MAKES = {
    getattr(torch.ops.aten, name)
    for name in ("empty", "empty_like", "empty_strided", "detach", "t", "view", "alias")
}


def work_of(func: Any, args: Any, kwargs: Any, out: Any) -> Work:
    """By the rule of its family, as recorded shapes are read; by the bytes that it touches where
    no rule knows it."""
    given = (*args, *kwargs.values())
    inputs = Inputs(tuple(map(_argument, given)), tuple(map(_value, given)))
    rule = RULES.get(_name(func))
    try:
        if rule is not None:
            return rule(inputs)
    except (ShapeError, IndexError, ValueError):
        pass
    tensors = inputs.tensors()
    if not tensors:
        return unknown()
    size = touched_bytes(func, args, kwargs, out)
    read = min(size, sum(tensor.stored_bytes for tensor in tensors))
    dims = Elements(max(tensor.count for tensor in tensors), len(tensors))
    return Work(Family.OTHER, tensors[0].dtype, dims, dims.count, read, size - read)


def _name(func: Any) -> str:
    return str(func.overloadpacket._qualified_op_name)


def _argument(value: Any) -> Tensor | tuple[Tensor, ...] | None:
    if isinstance(value, torch.Tensor):
        kind = dtype_of(str(value.dtype).removeprefix("torch."))
        return Tensor(tuple(value.shape), kind, tuple(value.stride()))
    if isinstance(value, (list, tuple)) and value and isinstance(value[0], torch.Tensor):
        found = (_argument(each) for each in value)
        return tuple(each for each in found if isinstance(each, Tensor))
    return None


def _value(value: Any) -> str:
    return "" if isinstance(value, torch.Tensor) or value is None else str(value)
