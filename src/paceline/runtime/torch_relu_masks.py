"""ReLUs that keep one bit a value, and max pools that keep short places, in a live model.

The first forward pass is only watched: where nobody but the ReLU itself, and max pools, keep its
result for the backward pass, later passes keep which values were cut, and the result goes once it
was read. A pool keeps where its largest values were, and needs its input no more.
"""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.autograd.function import once_differentiable
from torch.autograd.graph import saved_tensors_hooks
from torch.nn import functional
from torch.overrides import TorchFunctionMode

from paceline.runtime.torch_bits import packed, spread
from paceline.runtime.torch_forward import forward_as

log = logging.getLogger(__name__)

_COPIES = (functional.relu, torch.relu, torch.Tensor.relu)
_OVERWRITES = (torch.relu_, torch.Tensor.relu_)
_RELUS = (*_COPIES, *_OVERWRITES)
_POOLS = (functional.max_pool2d, torch.max_pool2d)
_NOTHING = "every ReLU's result is kept by what follows it too, and there is no max pool"


@contextmanager
def relus_masked(model: Any) -> Iterator[None]:
    """Until the context is left."""
    seen: dict[bool, frozenset[int]] = {}  # by whether the model trains

    def wrapped(forward: Callable[..., Any]) -> Callable[..., Any]:
        def run(*given: Any, **named: Any) -> Any:
            if not torch.is_grad_enabled():
                return forward(*given, **named)
            if model.training in seen:
                with _Masking(seen[model.training]):
                    return forward(*given, **named)
            with _Watching() as watch, saved_tensors_hooks(watch.saved, lambda saved: saved):
                results = forward(*given, **named)
            seen[model.training] = watch.alone()
            if not watch.alone() and not watch.pools:
                log.warning("relu_masks saves nothing here: %s", _NOTHING)
            return results

        return run

    with forward_as(model, wrapped):
        yield


class _Watching(TorchFunctionMode):  # type: ignore[misc]
    """Who keeps the results of ReLUs, by their turn."""

    def __init__(self) -> None:
        super().__init__()
        self.pools = 0
        self._now: Any = None  # the function that runs
        self._made: list[Any] = []  # kept, so that no other storage takes their place
        self._others: set[int] = set()  # storages that something else keeps

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        before, self._now = self._now, func
        try:
            result = func(*args, **(kwargs or {}))
        finally:
            self._now = before
        self.pools += func in _POOLS
        if func in _RELUS:
            self._made.append(result)
        return result

    def saved(self, tensor: torch.Tensor) -> torch.Tensor:
        """Autograd keeps a tensor."""
        if self._now not in _RELUS and self._now not in _POOLS:
            self._others.add(tensor.untyped_storage()._cdata)
        return tensor

    def alone(self) -> frozenset[int]:
        storages = enumerate(made.untyped_storage()._cdata for made in self._made)
        return frozenset(turn for turn, storage in storages if storage not in self._others)


class _Masking(TorchFunctionMode):  # type: ignore[misc]
    """The same forward pass, with masks for those ReLUs and places for the pools."""

    def __init__(self, turns: frozenset[int]) -> None:
        super().__init__()
        self._turns, self._turn = turns, 0

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        named = kwargs or {}
        if func in _POOLS and args and args[0].requires_grad:
            return _Pool.apply(args[0], _pooling(*args[1:], **named))
        if func in _RELUS:
            self._turn += 1
            if self._turn - 1 in self._turns and args[0].requires_grad:
                overwrites = func in _OVERWRITES or named.get("inplace", args[1:] == (True,))
                return _Relu.apply(args[0], overwrites)
        return func(*args, **named)


class _Relu(torch.autograd.Function):  # type: ignore[misc]
    """Keeps what was cut."""

    @staticmethod
    def forward(context: Any, x: torch.Tensor, overwrites: bool) -> torch.Tensor:
        made = torch.relu_(x) if overwrites else torch.relu(x)
        if overwrites:
            context.mark_dirty(x)
        context.save_for_backward(packed(made.le(0).reshape(-1)))
        return made

    @staticmethod
    @once_differentiable  # type: ignore[untyped-decorator]
    def backward(context: Any, gradient: torch.Tensor) -> Any:
        (bits,) = context.saved_tensors
        cut = spread(bits, gradient.numel()).view(gradient.shape)
        return gradient.masked_fill(cut, 0.0), None


Pooling = tuple[Any, Any, Any, Any, bool]
"""Window, stride, padding, dilation, whether sizes are rounded up."""


def _pooling(
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Pooling:
    """What `functional.max_pool2d` is asked; one that returns indices is another function."""

    def pair(value: Any) -> list[int]:
        return [value, value] if isinstance(value, int) else list(value)

    window = pair(kernel_size)
    return window, pair(stride) if stride else window, pair(padding), pair(dilation), ceil_mode


class _Pool(torch.autograd.Function):  # type: ignore[misc]
    """Keeps the places of the largest in as few bytes as a plane needs."""

    @staticmethod
    def forward(context: Any, x: torch.Tensor, how: Pooling) -> torch.Tensor:
        made, places = torch.ops.aten.max_pool2d_with_indices(x, *how)
        context.how, context.like = how, _Like(x)
        context.save_for_backward(places.to(_least_type(x)))
        return made

    @staticmethod
    @once_differentiable  # type: ignore[untyped-decorator]
    def backward(context: Any, gradient: torch.Tensor) -> Any:
        (places,) = context.saved_tensors
        like = context.like.tensor(gradient)
        back = torch.ops.aten.max_pool2d_with_indices_backward
        return back(gradient, like, *context.how, places.to(torch.int64)), None


class _Like:
    """Shape and order in memory of a tensor that is gone."""

    def __init__(self, x: torch.Tensor) -> None:
        self._shape = x.shape
        last = x.dim() == 4 and x.is_contiguous(memory_format=torch.channels_last)
        self._last = last and not x.is_contiguous()

    def tensor(self, like: torch.Tensor) -> torch.Tensor:
        """One that nobody reads."""
        if self._last:
            return like.new_empty(self._shape).to(memory_format=torch.channels_last)
        return like.new_empty(()).expand(self._shape)


def _least_type(x: torch.Tensor) -> torch.dtype:
    plane = x.shape[-2] * x.shape[-1]
    return torch.int16 if plane <= torch.iinfo(torch.int16).max else torch.int32
