"""What a live operator is given, as a trace would tell it; and the work that follows."""

from typing import Any

import torch

from paceline.graph.work import Recorded
from paceline.trace.shapes import Inputs, Tensor, typed, work_of
from paceline.trace.spelling import dtype_of


class Works:
    """Distinct work of an imagined rank, by number."""

    def __init__(self) -> None:
        self._numbers: dict[Recorded, int] = {}

    def number(self, func: Any, args: Any, kwargs: Any, dtype: Any) -> int:
        """-1 where no family knows the operator."""
        name = func._schema.name
        work = work_of(name, _inputs(func, args, kwargs))
        if work is None or not work.is_known:
            return -1
        return self._numbers.setdefault(Recorded(name, typed(work, dtype)), len(self._numbers))

    @property
    def all(self) -> tuple[Recorded, ...]:
        return tuple(self._numbers)


def _inputs(func: Any, args: Any, kwargs: Any) -> Inputs:
    """Every argument of the schema in its place, defaults too, as the profiler writes them."""
    specs = func._schema.arguments
    given = [*args, *(kwargs.get(s.name, s.default_value) for s in specs[len(args) :])]
    return Inputs(tuple(map(_tensors, given)), tuple(map(_text, given)))


def _tensors(value: Any) -> Tensor | tuple[Tensor, ...] | None:
    if isinstance(value, torch.Tensor):
        return _tensor(value)
    if isinstance(value, (list, tuple)):
        return tuple(_tensor(each) for each in value if isinstance(each, torch.Tensor)) or None
    return None


def _tensor(value: torch.Tensor) -> Tensor:
    strided = value.layout is torch.strided
    shape, strides = tuple(map(int, value.shape)), value.stride() if strided else ()
    return Tensor(shape, dtype_of(str(value.dtype)), tuple(map(int, strides)))


def _text(value: Any) -> str:
    if isinstance(value, torch.Tensor) or value is None:
        return ""
    return str(list(value)) if isinstance(value, (list, tuple)) else str(value)
