"""What a live operator is given, as a trace would tell it; and the work that follows."""

from dataclasses import replace
from typing import Any

import torch

from paceline.graph import DType
from paceline.graph.work import Family, Recorded, Work
from paceline.trace.shapes import Inputs, Tensor, typed, work_of
from paceline.trace.spelling import dtype_of


class Works:
    """Distinct work of an imagined rank, by number; `gpu`: convolutions may round to TF32."""

    def __init__(self, *, gpu: bool = False) -> None:
        self._gpu = gpu
        self.channels_last = False  # in the images of any convolution
        self._numbers: dict[Recorded, int] = {}

    def number(self, func: Any, args: Any, kwargs: Any, dtype: Any) -> int:
        """-1 where no family knows the operator."""
        name = func._schema.name
        work = work_of(name, _inputs(func, args, kwargs))
        if work is None or not work.is_known:
            return -1
        known = typed(work, dtype)
        made = _rounded(known) if self._gpu else known
        self.channels_last |= known.family is Family.CONVOLUTION and any(map(_innermost, args))
        return self._numbers.setdefault(Recorded(name, made), len(self._numbers))

    @property
    def all(self) -> tuple[Recorded, ...]:
        return tuple(self._numbers)


def _rounded(work: Work) -> Work:
    """Convolutions in float32 round to TF32 unless the script forbids it, as torch has them do."""
    if work.family is not Family.CONVOLUTION or work.dtype is not DType.FLOAT32:
        return work
    return replace(work, dtype=DType.TFLOAT32) if torch.backends.cudnn.allow_tf32 else work


def _innermost(value: Any) -> bool:
    """Whether these are images whose channels lie last; of one place or channel both orders are."""
    if not isinstance(value, torch.Tensor) or value.dim() != 4 or value.is_contiguous():
        return False
    return bool(value.is_contiguous(memory_format=torch.channels_last))


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
