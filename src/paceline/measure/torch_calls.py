"""Recorded operator calls made anew on random tensors, so that each can be timed by itself."""

import ast
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any

import torch

from paceline.measure.recorded_calls import Dims, OperatorCall

_DTYPES = {
    "float": torch.float32,
    "double": torch.float64,
    "c10::BFloat16": torch.bfloat16,
    "c10::Half": torch.float16,
    "long int": torch.int64,
    "int": torch.int32,
    "bool": torch.bool,
}
"""As the profiler spells tensors' element types."""


@dataclass(frozen=True, eq=False)
class Runnable:
    """An operator with its arguments."""

    operator: Any  # an overload of torch.ops.aten
    arguments: tuple[Any, ...]

    def __call__(self) -> Any:
        given, named = self.parts()
        return self.operator(*given, **named)

    def parts(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Arguments by position and by name."""
        schema = self.operator._schema.arguments
        named = {a.name: v for a, v in zip(schema, self.arguments) if a.kwarg_only}
        return self.arguments[: len(schema) - len(named)], named

    def mapped(self, change: Any) -> "Runnable":
        """With every tensor changed."""
        found = (change(v) if isinstance(v, torch.Tensor) else v for v in self.arguments)
        return replace(self, arguments=tuple(found))


def runnable(call: OperatorCall) -> Runnable | None:
    """The call on random tensors; None where the profiler told too little of it."""
    packet = getattr(torch.ops.aten, call.operator.removeprefix("aten::"), None)
    if packet is None or len(call.values) != len(call.types):
        return None
    for name in packet.overloads():
        overload = getattr(packet, name)
        arguments = _arguments(call, [str(a.type) for a in overload._schema.arguments])
        if arguments is not None:
            return Runnable(overload, arguments)
    return None


def is_image(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.dim() == 4


def innermost(tensor: torch.Tensor) -> torch.Tensor:
    """An image with its channels last; other tensors as they are."""
    if not is_image(tensor):
        return tensor
    return tensor.contiguous(memory_format=torch.channels_last)


def _arguments(call: OperatorCall, wanted: Sequence[str]) -> tuple[Any, ...] | None:
    if len(wanted) != len(call.types):
        return None
    found = []
    for want, kind, dims, strides, text in zip(
        wanted, call.types, call.dims, call.strides, call.values
    ):
        fits, value = _argument(want, kind, dims, strides, text)
        if not fits:
            return None
        found.append(value)
    return tuple(found)


def _argument(wanted: str, kind: str, dims: Dims, strides: Dims, text: str) -> tuple[bool, Any]:
    """Whether the argument can be what the operator wants, and its value."""
    tensor = wanted.removeprefix("Optional[").startswith("Tensor")
    if kind == "" and text == "":
        return wanted.startswith("Optional["), None
    if kind in _DTYPES and text == "":
        return tensor, _tensor(_DTYPES[kind], dims, strides)
    if tensor or kind not in ("Scalar", "ScalarList"):
        return False, None
    value = ast.literal_eval(text)
    return isinstance(value, list) == ("List[" in wanted), value


def _tensor(dtype: torch.dtype, dims: Dims, strides: Dims) -> torch.Tensor:
    size = 1 + sum((d - 1) * s for d, s in zip(dims, strides)) if prod(dims) else 0
    if dtype.is_floating_point:
        return torch.rand(size, dtype=dtype).sub_(0.5).as_strided(dims, strides)
    return torch.ones(size, dtype=dtype).as_strided(dims, strides)
