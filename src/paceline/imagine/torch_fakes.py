"""`Fakes`: torch's fake tensors, with a memory of operators' results that is quick to ask.

An imagined step is thousands of operators, most of them seen before with the same shapes. torch has
a cache for them; asking it takes most of the time that an imagined rank takes. What is kept here
are the plain cases alone: new dense tensors, views, and what was given and comes back.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode, in_kernel_invocation_manager

from paceline.imagine.torch_work import tensors

_Remade = Callable[[Sequence[Any]], Any]
"""From an operator's arguments, what it gives back."""

_PLAIN = {int, float, bool, str, type(None), torch.dtype, torch.device, torch.layout}
_PLAIN |= {torch.memory_format}
_CHANGING = {
    torch.Tag.data_dependent_output,
    torch.Tag.dynamic_output_shape,
    torch.Tag.inplace_view,
}
_RESIZING = {"set_", "resize_", "resize_as_"}


class Fakes(FakeTensorMode):  # type: ignore[misc]
    """While entered, tensors have shapes and no data."""

    def __init__(self) -> None:
        super().__init__(allow_non_fake_inputs=True)
        self._known: dict[tuple[Any, ...], _Remade | None] = {}  # None: torch is to work it out
        self._repeating: dict[Any, bool] = {}

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # nothing is compiled here, and guarding each call against it costs time

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        given = kwargs or {}
        key = self._key(func, args, given)
        if key is None:
            return super().__torch_dispatch__(func, types, args, given)
        if key not in self._known:
            out = super().__torch_dispatch__(func, types, args, given)
            self._known[key] = self._remade(out, args, given)
            return out
        remade = self._known[key]
        return remade(args) if remade else super().__torch_dispatch__(func, types, args, given)

    def _key(self, func: Any, args: Any, kwargs: Any) -> tuple[Any, ...] | None:
        """All that decides what the operator gives back; None where shapes do not decide it."""
        if func not in self._repeating:
            self._repeating[func] = func not in self.lift_fns and _repeats(func)
        if not self._repeating[func]:
            return None
        parts = [func, torch.get_default_dtype(), torch.is_inference_mode_enabled()]
        described = self._describe(args, parts)
        if kwargs and described:
            described = self._describe(kwargs, parts) and self._describe(kwargs.values(), parts)
        return tuple(parts) if described else None

    def _describe(self, values: Iterable[Any], parts: list[Any]) -> bool:
        for value in values:
            kind = type(value)
            if kind is FakeTensor:
                if value.constant is not None or value.fake_mode is not self or not _dense(value):
                    return False
                parts += (value.shape, value.stride(), value.storage_offset(), value.dtype)
                parts.append(value.fake_device)
            elif kind in _PLAIN:
                parts += (kind, value)
            elif kind is list or kind is tuple:
                parts += (kind, len(value))
                if not self._describe(value, parts):
                    return False
            else:
                return False
        return True

    def _remade(self, out: Any, args: Any, kwargs: Any) -> _Remade | None:
        """How to make again what an operator gave back."""
        if out is None:
            return lambda _: None
        if type(out) in (list, tuple):
            kind, parts = type(out), [self._remade(one, args, kwargs) for one in out]
            whole = [part for part in parts if part]
            if len(whole) < len(parts):
                return None
            return lambda given: kind(part(given) for part in whole)
        for index, one in enumerate(args):
            if one is out:
                return lambda given: given[index]
        if type(out) is not FakeTensor or out.constant is not None or out.requires_grad:
            return None
        return self._made_anew(out, args, kwargs) if _dense(out) else None

    def _made_anew(self, out: FakeTensor, args: Any, kwargs: Any) -> _Remade | None:
        """A tensor of its own memory, or of that of an argument, if it is no more than that."""
        shape, stride, offset = out.shape, out.stride(), out.storage_offset()
        dtype, device, storage = out.dtype, out.fake_device, _storage(out)
        bases = [
            i for i, one in enumerate(args) if type(one) is FakeTensor and _storage(one) == storage
        ]

        def make(given: Sequence[Any]) -> FakeTensor:
            with in_kernel_invocation_manager(self):
                made = torch.empty_strided(shape, stride, dtype=dtype, device="meta")
                if bases:
                    made.set_(given[bases[0]].untyped_storage(), offset, shape, stride)
            return FakeTensor(self, made, device)

        if not bases and any(_storage(one) == storage for one in tensors((args, kwargs))):
            return None
        return make if _facts(make(args)) == _facts(out) else None


def _repeats(func: Any) -> bool:
    """Whether equal arguments always give equal shapes, and none of them changes its own."""
    return (
        isinstance(func, torch._ops.OpOverload)
        and func.namespace == "aten"
        and not _CHANGING.intersection(func.tags)
        and func.overloadpacket.__name__ not in _RESIZING
        and not any(a.kwarg_only and a.alias_info for a in func._schema.arguments)
    )


def _storage(tensor: torch.Tensor) -> int:
    return int(tensor.untyped_storage()._cdata)


def _dense(tensor: torch.Tensor) -> bool:
    return tensor.layout is torch.strided and not tensor.dtype.is_complex


def _facts(tensor: FakeTensor) -> tuple[Any, ...]:
    size = tensor.untyped_storage().nbytes()
    return size, tensor.storage_offset(), torch._C._dispatch_key_set(tensor)
