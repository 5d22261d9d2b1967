"""What a trace tells of one call of an operator: its inputs' shapes, strides, types and values."""

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod
from typing import Any, Final

import msgspec

from paceline.graph import DType
from paceline.graph.work.sizes import bytes_of
from paceline.trace.spelling import dtype_of

_MOST: Final = 2**50
"""More elements are a mistake of whoever wrote the trace: nothing is known then."""


class ShapeError(ValueError):
    """The inputs are not what the operator takes; the caller goes on without them."""


@dataclass(frozen=True)
class Tensor:
    """A tensor as the trace tells it."""

    shape: tuple[int, ...]
    dtype: DType
    strides: tuple[int, ...] = ()

    @property
    def count(self) -> int:
        return prod(self.shape)

    @property
    def stored(self) -> int:
        """Elements in memory: an expanded dimension has one."""
        if len(self.strides) != len(self.shape):
            return self.count
        return prod(size for size, stride in zip(self.shape, self.strides) if stride or not size)

    @property
    def stored_bytes(self) -> int:
        return bytes_of(self.stored, self.dtype)

    @property
    def dense(self) -> bool:
        """Whether its elements lie one behind the other, in whatever order of dimensions."""
        pairs = sorted(zip(self.strides, self.shape))
        expected = 1
        for stride, size in pairs:
            if size > 1 and stride != expected:
                return False
            expected *= size
        return True


@dataclass(frozen=True)
class Inputs:
    """Each argument by its place: a tensor, a list of tensors, or None; and its value as text."""

    args: tuple[Tensor | tuple[Tensor, ...] | None, ...]
    values: tuple[str, ...] = ()

    def tensor(self, place: int) -> Tensor:
        found = self.args[place] if place < len(self.args) else None
        if not isinstance(found, Tensor):
            raise ShapeError(f"argument {place} is no tensor")
        return found

    def optional(self, place: int) -> Tensor | None:
        found = self.args[place] if place < len(self.args) else None
        return found if isinstance(found, Tensor) else None

    def tensors(self) -> list[Tensor]:
        return list(self._flat())

    def lists(self) -> list[tuple[Tensor, ...]]:
        return [arg for arg in self.args if isinstance(arg, tuple) and arg]

    def value(self, place: int) -> str:
        return self.values[place] if place < len(self.values) else ""

    def is_true(self, place: int) -> bool:
        return self.value(place) == "True"

    def numbers(self, place: int) -> tuple[int, ...]:
        """A list of whole numbers, as in "[2, 2]"; empty for anything else."""
        text = self.value(place).strip("[]() ")
        parts = [part.strip() for part in text.split(",") if part.strip()]
        return tuple(map(int, parts)) if all(p.lstrip("-").isdigit() for p in parts) else ()

    def _flat(self) -> Iterator[Tensor]:
        for arg in self.args:
            if isinstance(arg, Tensor):
                yield arg
            elif arg:
                yield from arg


class _Form(msgspec.Struct):
    dims: list[Any] = msgspec.field(name="Input Dims", default=[])
    strides: list[Any] = msgspec.field(name="Input Strides", default=[])
    types: list[Any] = msgspec.field(name="Input type", default=[])
    values: list[Any] = msgspec.field(name="Concrete Inputs", default=[])


_FORM: Final = msgspec.json.Decoder(_Form)


def inputs_of(form: bytes) -> Inputs | None:
    """The inputs that a form tells; None where it tells none, or nothing that can be read."""
    try:
        told = _FORM.decode(form)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    if not told.dims or len(told.types) != len(told.dims):
        return None
    strides = told.strides if len(told.strides) == len(told.dims) else [None] * len(told.dims)
    args = tuple(_argument(*each) for each in zip(told.dims, told.types, strides))
    return Inputs(args, tuple(str(value) for value in told.values))


def _argument(dims: Any, kind: Any, strides: Any) -> Tensor | tuple[Tensor, ...] | None:
    """Of a list most profilers tell no types: its tensors then have none."""
    if isinstance(kind, list) or kind == "TensorList":
        kinds = kind if isinstance(kind, list) else [None] * len(dims)
        steps = strides if _is_nested(strides) else [None] * len(dims)
        found = [_tensor(*each) for each in zip(dims, kinds, steps)] if _is_nested(dims) else []
        return tuple(tensor for tensor in found if tensor is not None)
    return _tensor(dims, kind, strides)


def _is_nested(dims: Any) -> bool:
    return isinstance(dims, list) and bool(dims) and isinstance(dims[0], list)


def _tensor(dims: Any, kind: Any, strides: Any) -> Tensor | None:
    if not isinstance(dims, list) or not all(_is_size(size) for size in dims):
        return None
    dtype = DType.NONE if kind is None else dtype_of(str(kind))
    if (kind is not None and dtype is DType.NONE) or prod(dims) > _MOST:
        return None
    known = isinstance(strides, list) and len(strides) == len(dims)
    steps = tuple(strides) if known and all(_is_size(s) for s in strides) else ()
    return Tensor(tuple(dims), dtype, steps)


def _is_size(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < _MOST
