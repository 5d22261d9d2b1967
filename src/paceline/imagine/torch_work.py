"""Bytes and arithmetic of one torch operator, from the shapes it is given and gives back."""

from collections.abc import Iterator
from typing import Any

import torch
from torch.utils import flop_counter

aten = torch.ops.aten

_OVERWRITES = {aten.copy_, aten.fill_, aten.zero_, aten.normal_, aten.uniform_, aten.random_}
"""In-place operators that do not read what they write over."""

_PICKS = {aten.embedding, aten.index_select, aten.gather, aten.index, aten.slice_backward}
"""Operators that read of their first tensor no more than they give back."""


def tensors(value: Any) -> Iterator[torch.Tensor]:
    """All tensors in a nest of lists, tuples and dictionaries."""
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from tensors(item)
    elif isinstance(value, dict):
        yield from tensors(list(value.values()))


def size_of(tensor: torch.Tensor) -> int:
    """Bytes of a tensor; repeated elements of an expanded one count once."""
    whole = int(tensor.numel() * tensor.element_size())
    return min(whole, int(tensor.untyped_storage().nbytes()))


def touched_bytes(func: Any, args: Any, kwargs: Any, out: Any) -> int:
    """Bytes that an operator reads and writes."""
    read, written = 0, 0
    for spec, value in _given(func, args, kwargs):
        size = sum(size_of(one) for one in tensors(value))
        changes = spec.alias_info is not None and spec.alias_info.is_write
        written += size if changes else 0
        overwritten = changes and (spec.kwarg_only or func.overloadpacket in _OVERWRITES)
        read += 0 if overwritten else size
    if not written:
        written = sum(size_of(one) for one in tensors(out))
    if func.overloadpacket in _PICKS and args:
        read += min(0, written - sum(size_of(one) for one in tensors(args[0])))
    return read + written


def flops_of(func: Any, args: Any, kwargs: Any, out: Any) -> int:
    """Operations of matrix products, convolutions and attention (a multiply-add is two); 0 else."""
    formula = flop_counter.flop_registry.get(func.overloadpacket)
    if formula is not None:
        return int(formula(*args, **kwargs, out_val=out))
    if func.overloadpacket is _CPU_ATTENTION:
        shapes = (one.shape for one in args[:3])
        return int(flop_counter.sdpa_flop_count(*shapes))
    if func.overloadpacket is _CPU_ATTENTION_BACKWARD:
        shapes = (one.shape for one in args[:4])
        return int(flop_counter.sdpa_backward_flop_count(*shapes))
    return 0


def _given(func: Any, args: Any, kwargs: Any) -> Iterator[tuple[Any, Any]]:
    """Each argument of the schema that was given, with its value."""
    specs = func._schema.arguments
    yield from zip(specs, args)
    for spec in specs[len(args) :]:
        if spec.name in kwargs:
            yield spec, kwargs[spec.name]


_CPU_ATTENTION = aten._scaled_dot_product_flash_attention_for_cpu
_CPU_ATTENTION_BACKWARD = aten._scaled_dot_product_flash_attention_for_cpu_backward
